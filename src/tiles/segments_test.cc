#include "tiles/segments.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/live_set.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::tiles {
namespace {

using model::BlockState;
using tests::kMib;
using tests::TraceMaker;

std::vector<RangeKind> kinds(const SegmentParts& segment) {
  std::vector<RangeKind> all;
  for (const SegmentPart& part : segment.parts) all.push_back(part.kind);
  return all;
}

TEST(Segments, are_blocks_and_free_ranges_in_address_order) {
  TraceMaker maker;
  maker.alloc(64 * kMib, kMib).alloc(70 * kMib, 2 * kMib);
  maker.segment(64 * kMib, 10 * kMib,
                {TraceMaker::block(64 * kMib, kMib, kMib),
                 TraceMaker::block(65 * kMib, 5 * kMib, 0, BlockState::kInactive),
                 TraceMaker::block(70 * kMib, 2 * kMib, 2 * kMib),
                 TraceMaker::block(72 * kMib, 2 * kMib, 0, BlockState::kInactive)});
  maker.segment(100 * kMib, 3 * kMib,
                {TraceMaker::block(100 * kMib, 3 * kMib, 0, BlockState::kInactive)});
  const auto trace = maker.finish();
  const auto all = segments(trace, trace.devices[0], 1);
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(kinds(all[0]), (std::vector{RangeKind::kBlock, RangeKind::kPinned, RangeKind::kBlock,
                                        RangeKind::kPinned}));
  EXPECT_EQ(all[0].parts[2].offset_bytes, 6 * kMib);
  EXPECT_EQ(all[0].parts[2].size_bytes, 2 * kMib);
  EXPECT_EQ(all[0].parts[2].lifetime, 1u);
  EXPECT_EQ(all[0].parts[1].lifetime, model::kNone);
  EXPECT_EQ(all[0].block_bytes, 3 * kMib);
  EXPECT_EQ(all[0].pinned_bytes, 7 * kMib);
  EXPECT_EQ(kinds(all[1]), std::vector{RangeKind::kReleasable});
  EXPECT_EQ(all[1].releasable_bytes, 3 * kMib);
}

TEST(Segments, of_an_earlier_point_have_the_blocks_of_that_point) {
  TraceMaker maker;
  maker.alloc(64 * kMib, kMib).alloc(70 * kMib, 2 * kMib);
  maker.segment(
      64 * kMib, 10 * kMib,
      {TraceMaker::block(64 * kMib, kMib, kMib), TraceMaker::block(70 * kMib, 4 * kMib, 2 * kMib)});
  const auto trace = maker.finish();
  const auto before = segments(trace, trace.devices[0], model::kBeforeFirst);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].releasable_bytes, 10 * kMib);
  const auto first = segments(trace, trace.devices[0], 0);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(kinds(first[0]), (std::vector{RangeKind::kBlock, RangeKind::kPinned}));
  EXPECT_EQ(first[0].parts[0].lifetime, 0u);
  EXPECT_EQ(first[0].pinned_bytes, 9 * kMib);
}

TEST(Segments, of_expandable_memory_are_released_by_pages) {
  TraceMaker maker;
  model::Segment row;
  row.device = {model::DeviceType::kCuda, 0};
  row.address = 0;
  row.total_size = 60 * kMib;
  row.type = model::SegmentType::kLarge;
  row.is_expandable = true;
  const std::vector<model::Block> blocks = {TraceMaker::block(19 * kMib, 2 * kMib, 2 * kMib)};
  maker.builder().add_segment(row, blocks);
  const auto trace = maker.finish();
  const auto all = segments(trace, trace.devices[0], model::kBeforeFirst);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(kinds(all[0]), (std::vector{RangeKind::kPinned, RangeKind::kBlock, RangeKind::kPinned,
                                        RangeKind::kReleasable}));
  EXPECT_EQ(all[0].parts[2].size_bytes, 19 * kMib);  // up to the end of the second page
  EXPECT_EQ(all[0].releasable_bytes, 20 * kMib);
}

TEST(Segments, of_private_pools_are_not_releasable) {
  TraceMaker maker;
  const model::PoolId pool = maker.builder().pool({0, 1});
  maker.segment(0, 2 * kMib, {}, pool);
  const auto trace = maker.finish();
  const auto all = segments(trace, trace.devices[0], model::kBeforeFirst);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(kinds(all[0]), std::vector{RangeKind::kPrivate});
  EXPECT_EQ(all[0].private_bytes, 2 * kMib);
}

TEST(Segments, are_empty_without_the_allocators_state) {
  TraceMaker maker;
  maker.alloc(1, 100);
  const auto trace = maker.finish();
  EXPECT_TRUE(segments(trace, trace.devices[0], 0).empty());
}

}  // namespace
}  // namespace plimsoll::tiles
