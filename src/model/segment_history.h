// Which segments the allocator held at a moment: the final segments, rolled back through the
// events that changed them. A moment is "after event e of the device", as in live_set.h.
//
// segment_alloc and segment_free make and end a whole segment; segment_map and segment_unmap grow
// and shrink the mapped ranges of expandable segments, and neighbouring ranges are one, as in the
// final state. Worked example, an expandable segment whose pages are 2 MiB:
//
//   end    [0, 6 MiB)                 one range
//   undo   map [4, 6 MiB)         ->  [0, 4 MiB)
//   undo   unmap [8, 10 MiB)      ->  [0, 4 MiB), [8, 10 MiB)
//
// A segment that is known only from the event that ended it has the type its size tells: see
// type_by_size. Events that contradict the segments (a cut-down file) are skipped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/trace.h"

namespace plimsoll::model {

// A segment, or a run of mapped pages of an expandable one.
struct SegmentRange {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  StreamId stream;
  PoolId pool;
  SegmentType type = SegmentType::kUnknown;
  bool is_expandable = false;

  std::uint64_t end() const { return address + size_bytes; }
  friend bool operator==(const SegmentRange&, const SegmentRange&) = default;
};

// The allocator takes small segments (for requests up to 1 MiB) 2 MiB at a time, and large ones in
// no less than 10 MiB; pages of expandable segments are 2 MiB and 20 MiB.
inline constexpr std::uint64_t kSmallSegmentBytes = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kLargePageBytes = std::uint64_t{20} << 20;
inline constexpr std::uint64_t kLargestSmallRequest = std::uint64_t{1} << 20;
SegmentType type_by_size(std::uint64_t size_bytes);

// The segments of the device at the end of the recording, by address.
std::vector<SegmentRange> final_segments(const Trace& trace, const DeviceTrace& device);

// The segments after each of `events`, which ascend; by address.
std::vector<std::vector<SegmentRange>> segments_at(const Trace& trace, const DeviceTrace& device,
                                                   std::span<const std::int64_t> events);

}  // namespace plimsoll::model
