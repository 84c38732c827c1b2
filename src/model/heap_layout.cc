#include "model/heap_layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plimsoll/caching_allocator.h"

namespace plimsoll::model {
namespace {

PlacedBlock placed(const Trace& trace, const DeviceTrace& device, std::uint32_t lifetime) {
  const std::uint64_t requested = trace.size_bytes(device, lifetime);
  const std::uint32_t block = device.lifetimes.block[lifetime];
  const bool is_known = device.has_block_sizes || block != kNone;
  const std::uint64_t size =
      is_known ? trace.block_bytes(device, lifetime) : caching_allocator::block_bytes(requested);
  return PlacedBlock{trace.address(device, lifetime), size, requested,
                     trace.stack(device, lifetime), lifetime};
}

// The lifetime of each block, by row of Trace::blocks; kNone if there is none.
std::vector<std::uint32_t> lifetimes_of_blocks(const Trace& trace, const DeviceTrace& device) {
  std::vector<std::uint32_t> of_block(trace.blocks.size(), kNone);
  if (!device.lifetimes.block.present()) return of_block;
  for (std::uint32_t row = 0; row < device.lifetimes.size(); ++row) {
    const std::uint32_t block = device.lifetimes.block[row];
    if (block != kNone) of_block[block] = row;
  }
  return of_block;
}

// Adds gaps that the allocator would not have split off to the block before them.
void absorb_tails(HeapLayout& layout) {
  for (const FreeGap& gap : layout.gaps()) {
    const SegmentRange& segment = layout.segments[gap.segment];
    const bool splits_any = segment.is_expandable || segment.type == SegmentType::kSmall;
    if (splits_any || gap.size_bytes > caching_allocator::kLargestSmallRequest ||
        gap.address == segment.address) {
      continue;
    }
    const std::size_t before = layout.first_block_after(gap.address - 1);
    if (before < layout.blocks.size() && layout.blocks[before].end() == gap.address) {
      layout.blocks[before].size_bytes += gap.size_bytes;
    }
  }
}

}  // namespace

std::size_t HeapLayout::first_block_after(std::uint64_t address) const {
  auto found = std::ranges::upper_bound(blocks, address, {}, &PlacedBlock::address);
  if (found != blocks.begin() && std::prev(found)->end() > address) --found;
  return static_cast<std::size_t>(found - blocks.begin());
}

std::vector<FreeGap> HeapLayout::gaps() const {
  std::vector<FreeGap> gaps;
  for (std::uint32_t row = 0; row < segments.size(); ++row) {
    const SegmentRange& segment = segments[row];
    std::uint64_t free_from = segment.address;
    for (std::size_t b = first_block_after(segment.address);
         b < blocks.size() && blocks[b].address < segment.end(); ++b) {
      if (blocks[b].address > free_from) {
        gaps.push_back(FreeGap{free_from, blocks[b].address - free_from, row});
      }
      free_from = std::max(free_from, std::min(blocks[b].end(), segment.end()));
    }
    if (free_from < segment.end()) {
      gaps.push_back(FreeGap{free_from, segment.end() - free_from, row});
    }
  }
  return gaps;
}

HeapLayout final_layout(const Trace& trace, const DeviceTrace& device) {
  HeapLayout layout{final_segments(trace, device), {}};
  const std::vector<std::uint32_t> lifetimes = lifetimes_of_blocks(trace, device);
  for (const Segment& s : trace.segments.span(device.first_segment, device.segment_count)) {
    for (std::uint32_t b = s.first_block; b < s.first_block + s.block_count; ++b) {
      const Block& block = trace.blocks[b];
      if (block.state == BlockState::kInactive) continue;
      layout.blocks.push_back(
          PlacedBlock{block.address, block.size, block.requested_size, block.stack, lifetimes[b]});
    }
  }
  std::ranges::sort(layout.blocks, {}, &PlacedBlock::address);
  return layout;
}

HeapLayout layout_of(const Trace& trace, const DeviceTrace& device,
                     std::vector<SegmentRange> segments, std::span<const std::uint32_t> active) {
  HeapLayout layout{std::move(segments), {}};
  layout.blocks.reserve(active.size());
  for (std::uint32_t lifetime : active) layout.blocks.push_back(placed(trace, device, lifetime));
  std::ranges::sort(layout.blocks, {}, &PlacedBlock::address);
  if (!device.has_block_sizes) absorb_tails(layout);
  return layout;
}

}  // namespace plimsoll::model
