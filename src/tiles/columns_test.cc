#include "tiles/columns.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/live_set.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tiles {
namespace {

using tests::TraceMaker;

std::vector<Column> by_event(const model::Trace& trace, const Baseline& baseline, double begin,
                             double end, std::size_t count) {
  const Axis axis(trace, trace.devices[0], AxisKind::kEvent);
  return columns(trace.devices[0], axis, baseline, begin, end, count);
}

TEST(Columns, show_the_first_highest_point_of_their_span) {
  TraceMaker maker;
  maker.alloc(1, 100).alloc(2, 50);                               // 100, 150
  maker.event(model::Action::kSegmentAlloc, 0, 4096);             // 150
  maker.free_immediately(1, 100).alloc(3, 10).alloc(4, 70);       // 50, 60, 130
  maker.event(model::Action::kSegmentFree, 0, 4096).alloc(5, 1);  // 130, 131
  const auto trace = maker.finish();
  const auto all = by_event(trace, {1'000, 20}, 0, 8, 2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].first_event, 0u);
  EXPECT_EQ(all[0].end_event, 4u);
  EXPECT_EQ(all[0].point, 1);
  EXPECT_EQ(all[0].live_bytes, 1'150);
  EXPECT_EQ(all[0].reserved_bytes, 20);
  EXPECT_EQ(all[0].lowest_bytes, 1'050);
  EXPECT_EQ(all[0].lowest_point, 3);
  EXPECT_EQ(all[1].point, 7);
  EXPECT_EQ(all[1].live_bytes, 1'131);
  EXPECT_EQ(all[1].reserved_bytes, 20);
  EXPECT_EQ(all[1].lowest_bytes, 1'060);
  EXPECT_EQ(all[1].lowest_point, 4);
  EXPECT_EQ(points_of(all), (std::vector<std::int64_t>{1, 7}));
}

TEST(Columns, without_events_show_the_state_they_begin_with) {
  TraceMaker maker;
  maker.alloc(1, 100).alloc(2, 50);
  const auto trace = maker.finish();
  const auto all = by_event(trace, {7, 0}, -2, 4, 6);
  EXPECT_EQ(points_of(all),
            (std::vector<std::int64_t>{model::kBeforeFirst, model::kBeforeFirst, 0, 1, 1, 1}));
  EXPECT_EQ(all[1].live_bytes, 7);
  EXPECT_EQ(all[5].live_bytes, 157);
  EXPECT_EQ(all[5].lowest_point, 1);
  EXPECT_EQ(all[5].first_event, all[5].end_event);
}

TEST(Columns, end_exactly_where_they_should) {
  TraceMaker maker;
  maker.alloc(1, 1).alloc(2, 1).alloc(3, 1).alloc(4, 1).alloc(5, 1);
  const auto trace = maker.finish();
  const double end = std::nextafter(3.0, 4.0);  // begin + (end - begin) is 3
  const auto all = by_event(trace, {}, -1e6, end, 2);
  EXPECT_EQ(all.back().end_event, 4u);
}

TEST(Columns, count_requested_bytes_until_the_memory_is_reusable) {
  TraceMaker maker;
  maker.alloc(1, 100).event(model::Action::kFreeRequested, 1, 100).alloc(2, 5);
  maker.event(model::Action::kFreeCompleted, 1, 100);
  const auto trace = maker.finish();
  const auto all = by_event(trace, {}, 0, 4, 4);
  EXPECT_EQ(all[1].live_bytes, 100);
  EXPECT_EQ(all[2].live_bytes, 105);
  EXPECT_EQ(all[3].live_bytes, 5);
}

TEST(Columns, count_blocks_until_the_program_frees_them_if_block_sizes_are_known) {
  TraceMaker maker;
  model::Event event;
  event.address = 1;
  event.size_bytes = 100;
  event.padding_bytes = 412;
  event.action = model::Action::kAlloc;
  maker.event(event);
  event.action = model::Action::kFreeRequested;
  maker.event(event);
  maker.builder().blocks_reported({model::DeviceType::kCuda, 0});
  const auto trace = maker.finish();
  const auto all = by_event(trace, {}, 0, 2, 2);
  EXPECT_EQ(all[0].live_bytes, 512);
  EXPECT_EQ(all[1].live_bytes, 0);
}

}  // namespace
}  // namespace plimsoll::tiles
