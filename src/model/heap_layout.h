// The positions of a device's active blocks inside its segments at one point in time, and thus of
// the gaps. The layout is exact at the end of the recording, and at any point if the events have
// block sizes. Otherwise it is derived by undoing events, and a block without a final size gets its
// request rounded up to 512 bytes. That equals the allocator's size except with
// roundup_power2_divisions, and except for the tail of up to 1 MiB that the allocator does not
// split off in a large segment: gaps that small after a block are counted as part of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/segment_history.h"
#include "model/trace.h"

namespace plimsoll::model {

struct PlacedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // after rounding
  std::uint64_t requested_bytes = 0;
  StackId stack;
  std::uint32_t lifetime = kNone;  // row of the device's lifetimes, if known

  // The last address if a hostile file states a size beyond it.
  std::uint64_t end() const {
    return address + std::min(size_bytes, std::numeric_limits<std::uint64_t>::max() - address);
  }
};

struct FreeGap {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t segment = 0;  // row of HeapLayout::segments

  std::uint64_t end() const { return address + size_bytes; }
};

struct HeapLayout {
  std::vector<SegmentRange> segments;  // by address
  std::vector<PlacedBlock> blocks;     // active blocks, by address

  // The first block that ends after `address`.
  std::size_t first_block_after(std::uint64_t address) const;
  // By address. Blocks outside every segment (an inconsistent file) are skipped.
  std::vector<FreeGap> gaps() const;
};

HeapLayout final_layout(const Trace& trace, const DeviceTrace& device);

// Computes the layout from the segments and the active lifetimes (rows of device.lifetimes) at one
// point in time.
HeapLayout layout_of(const Trace& trace, const DeviceTrace& device,
                     std::vector<SegmentRange> segments, std::span<const std::uint32_t> active);

}  // namespace plimsoll::model
