// Where the active blocks of a device lie inside its segments at a moment, and so where the gaps
// are. Exact at the end of the recording, and always if the events have blocks; else earlier it
// is rolled back, and then a block that no final block list tells of has the size of its request
// rounded up to 512 bytes. That is what the allocator returns, but for roundup_power2_divisions,
// and for the tail of up to 1 MiB that it does not split off in a large segment: gaps that small
// behind a block there are counted to it.
#pragma once

#include <cstdint>
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

  std::uint64_t end() const { return address + size_bytes; }
};

struct FreeGap {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t segment = 0;  // row of HeapLayout::segments

  std::uint64_t end() const { return address + size_bytes; }
};

struct HeapLayout {
  std::vector<SegmentRange> segments;  // by address
  std::vector<PlacedBlock> blocks;     // active ones, by address

  // The first block that ends after `address`.
  std::size_t first_block_after(std::uint64_t address) const;
  // By address. Blocks outside every segment (an inconsistent file) are skipped.
  std::vector<FreeGap> gaps() const;
};

HeapLayout final_layout(const Trace& trace, const DeviceTrace& device);

// From the segments and the active lifetimes (rows of device.lifetimes) of one moment.
HeapLayout layout_of(const Trace& trace, const DeviceTrace& device,
                     std::vector<SegmentRange> segments, std::span<const std::uint32_t> active);

}  // namespace plimsoll::model
