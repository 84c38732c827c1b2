// For each event, how many of a chart's points in time precede it. A lifetime is live at the points
// from the rank of its birth up to that of its death.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::tiles {

class PointRanks {
 public:
  // `points` ascend; keeps a reference.
  PointRanks(std::span<const std::int64_t> points, std::size_t event_count) : points_(points) {
    while ((event_count >> shift_) > kMostEntries) ++shift_;
    table_.reserve((event_count >> shift_) + 2);
    std::uint32_t rank = 0;
    for (std::size_t entry = 0; entry <= (event_count >> shift_) + 1; ++entry) {
      const auto event = static_cast<std::int64_t>(entry << shift_);
      while (rank < points.size() && points[rank] < event) ++rank;
      table_.push_back(rank);
    }
  }

  // model::kNone, "never", comes after all points.
  std::uint32_t of(std::uint32_t event) const {
    const std::size_t entry = event >> shift_;
    if (entry + 1 >= table_.size()) return static_cast<std::uint32_t>(points_.size());
    const auto* const from = points_.data() + table_[entry];
    const auto* const end = points_.data() + table_[entry + 1];
    if (from == end) return table_[entry];  // the usual case if there are many events
    return static_cast<std::uint32_t>(std::lower_bound(from, end, std::int64_t{event}) -
                                      points_.data());
  }

 private:
  // Keeps the table small enough for a CPU cache, whatever the number of events.
  static constexpr std::size_t kMostEntries = 1 << 17;

  std::span<const std::int64_t> points_;
  unsigned shift_ = 0;
  std::vector<std::uint32_t> table_;  // ranks of the events 0, 2^shift, 2 * 2^shift, ...
};

// Calls visit(row, first, end) for each lifetime that is live at any points, in the order of rows;
// [first, end) are these points. Only lifetimes that are live at the first point, or born between
// it and the last, are examined.
template <typename Visit>
void visit_visible(const model::DeviceTrace& device, std::span<const std::int64_t> points,
                   Visit&& visit) {
  PLIMSOLL_DCHECK(std::ranges::is_sorted(points));
  if (points.empty()) return;
  const PointRanks ranks(points, device.events.size());
  const model::Liveness liveness = model::default_liveness(device);
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (const std::uint32_t row : model::live_set(device, liveness, points.front())) {
    visit(row, 0u, ranks.of(model::death(lifetimes, row, liveness)));
  }
  const auto row_after = [&](std::int64_t point) {
    return lifetimes.born_at(static_cast<std::uint32_t>(point + 1));
  };
  const std::size_t end_row = row_after(points.back());
  for (std::size_t row = row_after(points.front()); row < end_row; ++row) {
    const std::uint32_t first = ranks.of(lifetimes.alloc[row]);
    const std::uint32_t end = ranks.of(model::death(lifetimes, row, liveness));
    if (first < end) visit(row, first, end);
  }
}

}  // namespace plimsoll::tiles
