// The segments of a device at a point in time, with their blocks and free ranges in address order:
// what a segment map draws.
#pragma once

#include <cstdint>
#include <vector>

#include "model/segment_history.h"
#include "model/trace.h"

namespace plimsoll::tiles {

enum class RangeKind : std::uint8_t {
  kBlock,       // active: allocated, or waiting for a stream
  kPinned,      // free, but a block keeps its segment (or page) from being released
  kReleasable,  // empty_cache() would return it to the driver
  kPrivate,     // in a private pool: returned when its CUDA graph or MemPool is destroyed
};

struct SegmentPart {
  std::uint64_t offset_bytes = 0;  // from the segment's start
  std::uint64_t size_bytes = 0;
  RangeKind kind = RangeKind::kBlock;
  std::uint32_t lifetime = model::kNone;  // the block's lifetime, if known
};

struct SegmentParts {
  model::SegmentRange segment;
  std::vector<SegmentPart> parts;  // cover the segment without gaps or overlaps
  std::uint64_t block_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t releasable_bytes = 0;
  std::uint64_t private_bytes = 0;
};

// Sorted by address. Empty if the device has no segments at that point, or if they are unknown. The
// sums equal those of the report's fragmentation at the same point.
std::vector<SegmentParts> segments(const model::Trace& trace, const model::DeviceTrace& device,
                                   std::int64_t point);

}  // namespace plimsoll::tiles
