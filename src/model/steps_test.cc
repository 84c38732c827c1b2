#include "model/steps.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::TraceMaker;

TEST(Steps, a_step_ends_at_its_mark) {
  TraceMaker maker;
  maker.alloc(1, 1).begin_region("r").alloc(2, 1).step(7).step(8).alloc(3, 1).end_region("r");
  maker.step(9).alloc(4, 1);
  const Trace trace = maker.finish();
  const auto ends = step_ends(trace, trace.devices[0]);
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].event, 2u);
  EXPECT_EQ(ends[0].step, 7u);
  EXPECT_EQ(ends[1].event, 2u);
  EXPECT_EQ(ends[2].event, 3u);
  EXPECT_EQ(step_of(ends, 0), 0u);
  EXPECT_EQ(step_of(ends, 1), 0u);
  EXPECT_EQ(step_of(ends, 2), 2u) << "step 8 had no events";
  EXPECT_EQ(step_of(ends, 3), 3u) << "after the last mark";
}

TEST(Steps, each_device_counts_its_own_events) {
  TraceMaker maker;
  maker.on({DeviceType::kCuda, 0}).alloc(1, 1).on({DeviceType::kCpu, -1}).alloc(1, 1).alloc(2, 1);
  maker.step(1);
  const Trace trace = maker.finish();
  EXPECT_EQ(step_ends(trace, trace.devices[0])[0].event, 1u);
  EXPECT_EQ(step_ends(trace, trace.devices[1])[0].event, 2u);
}

TEST(Steps, those_that_ended_before_a_truncated_history_are_unknown) {
  TraceMaker maker;
  maker.step(1).step(2).alloc(1, 1).step(3).alloc(2, 1);
  maker.builder().mark_truncated({DeviceType::kCuda, 0});
  const Trace trace = maker.finish();
  const auto ends = step_ends(trace, trace.devices[0]);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].step, 3u);
}

TEST(Steps, without_marks_there_are_no_steps) {
  TraceMaker maker;
  maker.alloc(1, 1);
  const Trace trace = maker.finish();
  EXPECT_TRUE(step_ends(trace, trace.devices[0]).empty());
}

}  // namespace
}  // namespace plimsoll::model
