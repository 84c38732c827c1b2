// SegmentSet: the memory that caching allocators hold from the driver, by the segment events so
// far. Whole segments come and go; mapped ranges are cut by what is unmapped. Events that
// contradict each other change as little as they must: the sum of what is held is always that of
// the ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "format/records.h"

namespace plimsoll::format {

// plimsoll_segment_action
inline constexpr std::uint8_t kSegmentAlloc = 0, kSegmentFree = 1, kSegmentMap = 2,
                              kSegmentUnmap = 3;

class SegmentSet {
 public:
  // How the bytes held on the event's device change, modulo 2^64. May throw std::bad_alloc.
  std::uint64_t apply(const Segment& event) {
    switch (event.action) {
      case kSegmentAlloc:
      case kSegmentMap:
        return add(event);
      case kSegmentFree:
        return take(ranges_.find({event.device, event.address}));
      case kSegmentUnmap:
        return cut(event);
      default:
        return 0;
    }
  }
  // Calls visit(segment) for what is held, by device and address: the events that began each, cut
  // to what is left of them.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [place, segment] : ranges_) visit(segment);
  }
  bool is_empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }

 private:
  using Ranges = std::map<std::pair<std::uint8_t, std::uint64_t>, Segment>;

  std::uint64_t add(const Segment& segment) {
    const auto [place, is_new] = ranges_.try_emplace({segment.device, segment.address}, segment);
    const std::uint64_t before = is_new ? 0 : place->second.size_bytes;
    place->second = segment;
    return segment.size_bytes - before;
  }
  std::uint64_t take(Ranges::iterator place) {
    if (place == ranges_.end()) return 0;
    const std::uint64_t bytes = place->second.size_bytes;
    ranges_.erase(place);
    return 0 - bytes;
  }
  std::uint64_t cut(const Segment& gone) {
    const std::uint64_t end = gone.address + gone.size_bytes;
    std::uint64_t change = 0;
    auto at = ranges_.upper_bound({gone.device, gone.address});
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < std::pair(gone.device, end)) {
      const Segment range = at->second;
      const std::uint64_t range_end = range.address + range.size_bytes;
      const bool is_touched =
          range.device == gone.device && range.action == kSegmentMap && range_end > gone.address;
      if (!is_touched) {
        ++at;
        continue;
      }
      const auto next = std::next(at);
      change += take(at);
      change += keep(range, range.address, std::min(range_end, gone.address));
      change += keep(range, std::max(range.address, end), range_end);
      at = next;
    }
    return change;
  }
  std::uint64_t keep(Segment range, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return 0;
    range.address = begin;
    range.size_bytes = end - begin;
    return add(range);
  }

  Ranges ranges_;
};

}  // namespace plimsoll::format
