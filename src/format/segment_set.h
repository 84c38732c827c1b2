// SegmentSet tracks the memory that caching allocators have reserved from the driver, from segment
// events. Whole segments are added and removed; unmapping cuts mapped ranges. Ranges never overlap:
// where events contradict each other, the new range replaces what it covers. An event therefore
// visits only what it removes, and the reserved bytes are the sum over all ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "format/records.h"

namespace plimsoll::format {

// plimsoll_segment_action
inline constexpr std::uint8_t kSegmentAlloc = 0, kSegmentFree = 1, kSegmentMap = 2,
                              kSegmentUnmap = 3;

class SegmentSet {
 public:
  // Returns the change of the reserved bytes on the event's device, modulo 2^64. May throw
  // std::bad_alloc.
  std::uint64_t apply(const Segment& event) {
    switch (event.action) {
      case kSegmentAlloc:
        return add(event, whole_);
      case kSegmentMap:
        return add(event, mapped_);
      case kSegmentFree: {
        auto place = whole_.find({event.device, event.address});
        return place == whole_.end() ? 0 : take(whole_, place);
      }
      case kSegmentUnmap:
        return cut(event);
      default:
        return 0;
    }
  }
  // Calls visit(segment) for each reserved range: the event that began it, cut to what is left of
  // it. Whole segments come first, then mapped ranges, both by device and address.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [place, segment] : whole_) visit(segment);
    for (const auto& [place, segment] : mapped_) visit(segment);
  }
  bool is_empty() const { return whole_.empty() && mapped_.empty(); }
  void clear() {
    whole_.clear();
    mapped_.clear();
  }

 private:
  using Ranges = std::map<std::pair<std::uint8_t, std::uint64_t>, Segment>;

  static std::uint64_t end_of(const Segment& segment) {
    return segment.address + std::min(segment.size_bytes, UINT64_MAX - segment.address);
  }
  // The first range that ends after the beginning of `over`.
  static Ranges::iterator first_under(Ranges& ranges, const Segment& over) {
    const auto at = ranges.upper_bound({over.device, over.address});
    if (at == ranges.begin()) return at;
    const Segment& before = std::prev(at)->second;
    const bool reaches_in = before.device == over.device && end_of(before) > over.address;
    return reaches_in ? std::prev(at) : at;
  }
  static bool is_under(const Ranges& ranges, Ranges::iterator at, const Segment& over) {
    return at != ranges.end() && at->first < std::pair(over.device, end_of(over));
  }

  std::uint64_t add(const Segment& segment, Ranges& ranges) {
    if (segment.size_bytes == 0) return 0;
    const std::uint64_t change = drop(segment) + cut(segment);
    ranges.emplace(std::pair(segment.device, segment.address), segment);
    return change + segment.size_bytes;
  }
  static std::uint64_t take(Ranges& ranges, Ranges::iterator& place) {
    const std::uint64_t bytes = place->second.size_bytes;
    place = ranges.erase(place);
    return 0 - bytes;
  }
  std::uint64_t drop(const Segment& over) {
    std::uint64_t change = 0;
    auto at = first_under(whole_, over);
    while (is_under(whole_, at, over)) change += take(whole_, at);
    return change;
  }
  std::uint64_t cut(const Segment& gone) {
    std::uint64_t change = 0;
    auto at = first_under(mapped_, gone);
    while (is_under(mapped_, at, gone)) {
      const Segment range = at->second;
      change += take(mapped_, at);
      change += keep(range, range.address, gone.address);
      change += keep(range, end_of(gone), end_of(range));
    }
    return change;
  }
  std::uint64_t keep(Segment range, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return 0;
    range.address = begin;
    range.size_bytes = end - begin;
    mapped_.emplace(std::pair(range.device, begin), range);
    return range.size_bytes;
  }

  Ranges whole_;
  Ranges mapped_;
};

}  // namespace plimsoll::format
