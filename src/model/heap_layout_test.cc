#include "model/heap_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "model/live_set.h"
#include "model/trace_builder.h"
#include "tests/support/units.h"

namespace plimsoll::model {
namespace {

using tests::kMib;

SegmentRange large_segment(std::uint64_t address, std::uint64_t size) {
  return SegmentRange{address, size, {}, {}, SegmentType::kLarge, false};
}

// In units of 512 bytes: occupied where a block covers the unit.
std::vector<bool> occupied_units(const HeapLayout& layout, const SegmentRange& segment) {
  std::vector<bool> units(segment.size_bytes / 512);
  for (const PlacedBlock& block : layout.blocks) {
    for (std::uint64_t at = block.address; at < block.end(); at += 512) {
      if (at >= segment.address && at < segment.end()) units[(at - segment.address) / 512] = true;
    }
  }
  return units;
}

TEST(HeapLayout, gaps_are_exactly_the_bytes_outside_blocks) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    HeapLayout layout{{large_segment(4096, std::uint64_t{64} * 512),
                       large_segment(1 << 20, std::uint64_t{64} * 512)},
                      {}};
    for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{(1 << 20) - 1024}}) {
      std::uint64_t address = start;
      while (address < start + 50000) {
        const std::uint64_t size = 512 * (1 + random() % 9);
        if (random() % 2 == 0) layout.blocks.push_back(PlacedBlock{address, size, size, {}});
        address += size;
      }
    }
    std::vector<bool> free[2];
    for (std::size_t s = 0; s < 2; ++s) free[s].resize(64);
    for (const FreeGap& gap : layout.gaps()) {
      for (std::uint64_t at = gap.address; at < gap.end(); at += 512) {
        free[gap.segment][(at - layout.segments[gap.segment].address) / 512] = true;
      }
    }
    for (std::size_t s = 0; s < 2; ++s) {
      std::vector<bool> occupied = occupied_units(layout, layout.segments[s]);
      occupied.flip();
      ASSERT_EQ(free[s], occupied) << "round " << round;
    }
  }
}

TEST(HeapLayout, overlapping_and_stray_blocks_do_no_harm) {
  HeapLayout layout{{large_segment(1000, 1000)},
                    {PlacedBlock{0, 100, 1, {}}, PlacedBlock{900, 200, 1, {}},
                     PlacedBlock{1050, 400, 1, {}}, PlacedBlock{1200, 100, 1, {}},
                     PlacedBlock{1900, 500, 1, {}}, PlacedBlock{5000, 500, 1, {}}}};
  const auto gaps = layout.gaps();
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].address, 1450u);
  EXPECT_EQ(gaps[0].end(), 1900u);
}

Trace one_allocation(std::uint64_t requested) {
  base::Diagnostics diagnostics;
  base::Progress progress;
  TraceBuilder builder(diagnostics);
  Event event;
  event.action = Action::kAlloc;
  event.address = 20 * kMib;
  event.size_bytes = requested;
  builder.add_event(Device{}, event);
  return std::move(builder.finish("test", progress)).value();
}

TEST(HeapLayout, an_unsplit_tail_of_a_large_segment_belongs_to_its_block) {
  const Trace trace = one_allocation(19 * kMib + 1);
  const DeviceTrace& device = trace.devices[0];
  const auto live = live_set(device, Liveness::kActive, 0);
  EXPECT_TRUE(layout_of(trace, device, {large_segment(20 * kMib, 20 * kMib)}, live).gaps().empty());
  const auto gaps = layout_of(trace, device, {large_segment(20 * kMib, 22 * kMib)}, live).gaps();
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].size_bytes, 3 * kMib - 512);
}

}  // namespace
}  // namespace plimsoll::model
