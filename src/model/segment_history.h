// The allocator's segments at a point in time: the final segments, rolled back through the events
// that changed them. A point is "after event e of the device", as in live_set.h.
//
// segment_alloc and segment_free create and end a whole segment; segment_map and segment_unmap grow
// and shrink the mapped ranges of expandable segments, and adjacent ranges are merged, as in the
// final state. Worked example, an expandable segment whose pages are 2 MiB:
//
//   end    [0, 6 MiB)                 one range
//   undo   map [4, 6 MiB)         ->  [0, 4 MiB)
//   undo   unmap [8, 10 MiB)      ->  [0, 4 MiB), [8, 10 MiB)
//
// A segment known only from the event that ended it has the type implied by its size: see
// type_by_size. Events that contradict the segments (a truncated file) are skipped.
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

SegmentType type_by_size(std::uint64_t size_bytes);

// The segments of the device at the end of the recording, by address.
std::vector<SegmentRange> final_segments(const Trace& trace, const DeviceTrace& device);

// The segments after each of `events`, which must ascend; by address.
std::vector<std::vector<SegmentRange>> segments_at(const Trace& trace, const DeviceTrace& device,
                                                   std::span<const std::int64_t> events);

}  // namespace plimsoll::model
