#include "model/live_index.h"

#include <algorithm>

#include "model/trace.h"

namespace plimsoll::model {

// The first point in time at which the lifetime is no longer live, where 0 is "before the first
// event" and k + 1 is "after event k": 0 if it was never live, the largest number if it never ends.
class LiveIndex::Ends {
 public:
  Ends(const Lifetimes& lifetimes, Liveness liveness)
      : requested_(liveness == Liveness::kAllocated ? lifetimes.free_requested.data() : nullptr),
        completed_(lifetimes.free_completed.data()) {}

  std::uint32_t operator[](std::size_t row) const {
    std::uint32_t event = completed_[row];
    if (requested_ != nullptr && requested_[row] != kNone) event = requested_[row];
    if (event == kNone) return kNone;
    return event == kBeforeRecording ? 0 : event + 1;
  }

 private:
  const std::uint32_t* requested_;
  const std::uint32_t* completed_;
};

LiveIndex::LiveIndex(const Lifetimes& lifetimes, Liveness liveness)
    : row_count_(lifetimes.size()), liveness_(liveness) {
  if (row_count_ == 0) return;
  const Ends ends(lifetimes, liveness);
  std::vector<std::uint32_t>& lowest = levels_.emplace_back();
  lowest.reserve((row_count_ + kRows - 1) / kRows);
  for (std::size_t first = 0; first < row_count_; first += kRows) {
    const std::size_t end = std::min(first + kRows, row_count_);
    std::uint32_t latest = 0;
    for (std::size_t row = first; row < end; ++row) latest = std::max(latest, ends[row]);
    lowest.push_back(latest);
  }
  while (levels_.back().size() > 1) {
    const std::vector<std::uint32_t>& below = levels_.back();
    std::vector<std::uint32_t> level;
    for (std::size_t first = 0; first < below.size(); first += kFanOut) {
      const std::size_t end = std::min(first + kFanOut, below.size());
      level.push_back(*std::max_element(below.begin() + static_cast<std::ptrdiff_t>(first),
                                        below.begin() + static_cast<std::ptrdiff_t>(end)));
    }
    levels_.push_back(std::move(level));
  }
}

// One query. It visits groups from left to right, so rows come out in ascending order.
class LiveIndex::Query {
 public:
  Query(const LiveIndex& index, const Lifetimes& lifetimes, std::int64_t event,
        std::vector<std::uint32_t>& rows)
      : index_(index),
        ends_(lifetimes, index.liveness_),
        time_(static_cast<std::uint32_t>(event + 1)),
        born_(born_by(lifetimes, event)),
        rows_(rows) {}

  void run() {
    if (born_ > 0) visit(index_.levels_.size() - 1, 0, group_rows(index_.levels_.size() - 1));
  }

 private:
  static std::size_t born_by(const Lifetimes& lifetimes, std::int64_t event) {
    const auto births = lifetimes.alloc.span().subspan(lifetimes.baseline_count);
    const auto later = std::ranges::upper_bound(
        births, event, {}, [](std::uint32_t born) { return std::int64_t{born}; });
    return lifetimes.baseline_count + static_cast<std::size_t>(later - births.begin());
  }
  static std::size_t group_rows(std::size_t level) {
    std::size_t rows = kRows;
    for (; level > 0; --level) rows *= kFanOut;
    return rows;
  }

  // `rows` is the number of rows in a full group of the level.
  void visit(std::size_t level, std::size_t group, std::size_t rows) {
    if (index_.levels_[level][group] <= time_) return;
    if (level == 0) return visit_rows(group * kRows);
    const std::size_t below = rows / kFanOut;
    const std::size_t first = group * kFanOut;
    const std::size_t end = std::min(first + kFanOut, index_.levels_[level - 1].size());
    for (std::size_t each = first; each < end && each * below < born_; ++each) {
      visit(level - 1, each, below);
    }
  }
  void visit_rows(std::size_t first) {
    const std::size_t end = std::min(first + kRows, born_);
    for (std::size_t row = first; row < end; ++row) {
      if (ends_[row] > time_) rows_.push_back(static_cast<std::uint32_t>(row));
    }
  }

  const LiveIndex& index_;
  const Ends ends_;
  const std::uint32_t time_;  // on the scale of Ends
  const std::size_t born_;    // rows that have been born by then
  std::vector<std::uint32_t>& rows_;
};

void LiveIndex::append_live(const Lifetimes& lifetimes, std::int64_t event,
                            std::vector<std::uint32_t>& rows) const {
  Query(*this, lifetimes, event, rows).run();
}

std::size_t LiveIndex::memory_bytes() const {
  std::size_t bytes = 0;
  for (const auto& level : levels_) bytes += level.capacity() * sizeof(std::uint32_t);
  return bytes;
}

}  // namespace plimsoll::model
