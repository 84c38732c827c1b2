#include "tiles/bands.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/last_use.h"
#include "model/live_set.h"
#include "tiles/point_ranks.h"

namespace plimsoll::tiles {
namespace {

// Turns the changes at each point into running sums. Intermediate sums wrap: a hostile file may
// have any size.
void add_up(std::vector<std::uint64_t>& cells, std::size_t width) {
  for (std::size_t row = 0; row + width <= cells.size(); row += width) {
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(row);
    std::partial_sum(begin, begin + static_cast<std::ptrdiff_t>(width), begin);
  }
}

void add_largest(const std::vector<std::uint64_t>& bytes, std::size_t keep,
                 std::vector<bool>& is_kept) {
  std::vector<std::uint32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0u);
  keep = std::min(keep, order.size());
  const auto is_larger = [&](std::uint32_t a, std::uint32_t b) {
    return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(keep), is_larger);
  for (std::size_t i = 0; i < keep && bytes[order[i]] > 0; ++i) is_kept[order[i]] = true;
}

// Keeps the order of `groups`; the rest is last.
Groups keep_only(Groups groups, const std::vector<bool>& is_kept) {
  const auto kept = static_cast<std::uint32_t>(std::ranges::count(is_kept, true));
  if (kept + 1 >= groups.names.size()) return groups;  // merging a single group saves no band
  Groups out;
  std::vector<std::uint32_t> place(is_kept.size(), kept);
  for (std::size_t group = 0; group < is_kept.size(); ++group) {
    if (!is_kept[group]) continue;
    place[group] = static_cast<std::uint32_t>(out.names.size());
    out.names.push_back(std::move(groups.names[group]));
  }
  out.names.emplace_back(kEverythingElse);
  for (std::uint32_t& group : groups.of) group = place[group];
  out.of = std::move(groups.of);
  return out;
}

// `first_of(row, first)` is the first point at which a lifetime counts that is live from `first`.
template <typename FirstOf>
Bands bands_from(const model::Trace& trace, const model::DeviceTrace& device, const Groups& groups,
                 std::span<const std::int64_t> points, FirstOf&& first_of) {
  PLIMSOLL_CHECK(groups.of.size() == device.lifetimes.size());
  const std::size_t width = points.size();
  Bands bands;
  bands.names = groups.names;
  bands.points = width;
  bands.bytes.assign(groups.names.size() * width, 0);
  bands.counts.assign(groups.names.size() * width, 0);
  visit_visible(device, points, [&](std::size_t row, std::uint32_t live, std::uint32_t end) {
    const std::uint32_t first = first_of(row, live);
    if (first >= end) return;
    const std::uint64_t bytes = trace.lifetime_bytes(device, row);
    const std::size_t band = groups.of[row] * width;
    bands.bytes[band + first] += bytes;
    bands.counts[band + first] += 1;
    if (end == width) return;
    bands.bytes[band + end] -= bytes;
    bands.counts[band + end] -= 1;
  });
  add_up(bands.bytes, width);
  add_up(bands.counts, width);
  return bands;
}

}  // namespace

Groups groups_of(model::Grouping& grouping, const model::DeviceTrace& device) {
  Groups groups;
  groups.of.reserve(device.lifetimes.size());
  for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
    groups.of.push_back(grouping.group(row));
  }
  groups.names.reserve(grouping.size());
  for (std::uint32_t group = 0; group < grouping.size(); ++group) {
    groups.names.push_back(grouping.name(group));
  }
  return groups;
}

Bands bands(const model::Trace& trace, const model::DeviceTrace& device, const Groups& groups,
            std::span<const std::int64_t> points) {
  return bands_from(trace, device, groups, points,
                    [](std::size_t, std::uint32_t first) { return first; });
}

Bands unused_bands(const model::Trace& trace, const model::DeviceTrace& device,
                   const Groups& groups, std::span<const std::int64_t> points) {
  const model::LastUses uses(trace, device);
  const PointRanks ranks(points, device.events.size());
  return bands_from(trace, device, groups, points, [&](std::size_t row, std::uint32_t first) {
    return std::max(first, ranks.of(uses.freeable(row)));
  });
}

Groups largest(const model::Trace& trace, const model::DeviceTrace& device, Groups groups,
               std::span<const std::int64_t> points, std::span<const std::int64_t> important,
               std::size_t keep) {
  PLIMSOLL_CHECK(groups.of.size() == device.lifetimes.size());
  const std::size_t count = groups.names.size();
  if (count <= keep) return groups;
  std::vector<bool> is_kept(count);
  std::vector<std::uint64_t> sums(count);
  visit_visible(device, points, [&](std::size_t row, std::uint32_t first, std::uint32_t end) {
    sums[groups.of[row]] += trace.lifetime_bytes(device, row) * (end - first);
  });
  add_largest(sums, keep, is_kept);
  for (const std::int64_t point : important) {
    std::ranges::fill(sums, 0);
    for (const std::uint32_t row :
         model::live_set(device, model::default_liveness(device), point)) {
      sums[groups.of[row]] += trace.lifetime_bytes(device, row);
    }
    add_largest(sums, keep, is_kept);
  }
  return keep_only(std::move(groups), is_kept);
}

}  // namespace plimsoll::tiles
