#include "model/segment_history.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/check.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::model {
namespace {

// The ranges by address; they overlap only if the file's own segments do.
class Ranges {
 public:
  explicit Ranges(const std::vector<SegmentRange>& ranges) {
    for (const SegmentRange& range : ranges) by_address_.emplace(range.address, range);
  }

  void undo(const Event& event) {
    const SegmentRange range{event.address, event.size_bytes, event.stream, event.pool, {}, false};
    switch (event.action) {
      case Action::kSegmentAlloc:
        drop_segment(event.address);
        break;
      case Action::kSegmentFree:
        add_segment(range);
        break;
      case Action::kSegmentMap:
        unmap(range.address, range.end());
        break;
      case Action::kSegmentUnmap:
        map(range);
        break;
      case Action::kAlloc:
      case Action::kFreeRequested:
      case Action::kFreeCompleted:
      case Action::kFree:
      case Action::kSnapshot:
      case Action::kOom:
      case Action::kAnnotate:
      case Action::kUnknown:
        break;
    }
  }

  std::vector<SegmentRange> all() const {
    std::vector<SegmentRange> ranges;
    ranges.reserve(by_address_.size());
    for (const auto& [address, range] : by_address_) ranges.push_back(range);
    return ranges;
  }

 private:
  using Map = std::map<std::uint64_t, SegmentRange>;

  void drop_segment(std::uint64_t address) {
    auto found = by_address_.find(address);
    if (found != by_address_.end() && !found->second.is_expandable) by_address_.erase(found);
  }

  void add_segment(SegmentRange range) {
    range.type = type_by_size(range.size_bytes);
    by_address_.emplace(range.address, range);
  }

  // Removes [begin, end) from the mapped ranges; the parts on either side remain.
  void unmap(std::uint64_t begin, std::uint64_t end) {
    auto at = by_address_.upper_bound(begin);
    if (at != by_address_.begin()) --at;
    while (at != by_address_.end() && at->first < end) {
      const SegmentRange range = at->second;
      if (!range.is_expandable || range.end() <= begin) {
        ++at;
        continue;
      }
      at = by_address_.erase(at);
      add_piece(range, range.address, std::min(range.end(), begin));
      add_piece(range, std::max(range.address, end), range.end());
    }
  }

  void add_piece(SegmentRange range, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    range.address = begin;
    range.size_bytes = end - begin;
    by_address_.emplace(begin, range);
  }

  // Adds a mapped range and joins it to its neighbors, whose pool and type are more reliable.
  void map(SegmentRange range) {
    range.is_expandable = true;
    auto next = by_address_.find(range.end());
    if (next != by_address_.end() && is_same_segment(next->second, range)) {
      range = joined(range, next->second, next->second);
      by_address_.erase(next);
    }
    auto after = by_address_.lower_bound(range.address);
    if (after != by_address_.begin()) {
      auto before = std::prev(after);
      if (before->second.end() == range.address && is_same_segment(before->second, range)) {
        range = joined(before->second, range, before->second);
        by_address_.erase(before);
      }
    }
    if (range.type == SegmentType::kUnknown) range.type = type_by_size(range.size_bytes);
    by_address_.emplace(range.address, range);
  }

  static bool is_same_segment(const SegmentRange& neighbour, const SegmentRange& range) {
    return neighbour.is_expandable && neighbour.stream == range.stream;
  }
  static SegmentRange joined(const SegmentRange& left, const SegmentRange& right,
                             SegmentRange known) {
    known.address = left.address;
    known.size_bytes = left.size_bytes + right.size_bytes;
    return known;
  }

  Map by_address_;
};

}  // namespace

SegmentType type_by_size(std::uint64_t size_bytes) {
  return caching_allocator::is_small_segment(size_bytes) ? SegmentType::kSmall
                                                         : SegmentType::kLarge;
}

std::vector<SegmentRange> final_segments(const Trace& trace, const DeviceTrace& device) {
  std::vector<SegmentRange> ranges;
  ranges.reserve(device.segment_count);
  for (const Segment& s : trace.segments.span(device.first_segment, device.segment_count)) {
    ranges.push_back(
        SegmentRange{s.address, s.total_size, s.stream, s.pool, s.type, s.is_expandable});
  }
  return ranges;
}

std::vector<std::vector<SegmentRange>> segments_at(const Trace& trace, const DeviceTrace& device,
                                                   std::span<const std::int64_t> events) {
  PLIMSOLL_DCHECK(std::is_sorted(events.begin(), events.end()));
  std::vector<std::vector<SegmentRange>> points(events.size());
  Ranges ranges(final_segments(trace, device));
  auto next = static_cast<std::int64_t>(device.events.size()) - 1;  // the latest event not undone
  for (std::size_t point = events.size(); point > 0; --point) {
    for (; next > events[point - 1]; --next) {
      ranges.undo(trace.event(device, static_cast<std::size_t>(next)));
    }
    points[point - 1] = ranges.all();
  }
  return points;
}

}  // namespace plimsoll::model
