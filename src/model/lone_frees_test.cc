#include "model/lone_frees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/diagnostics.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::TraceMaker;

std::size_t whole_frees(const Trace& trace) {
  std::size_t count = 0;
  for (const Action action : trace.devices.at(0).events.action) {
    count += action == Action::kFree ? 1 : 0;
  }
  return count;
}

TEST(LoneFrees, a_free_completed_alone_ends_the_allocation) {
  TraceMaker maker;
  maker.alloc(1, 10).event(Action::kFreeCompleted, 1, 10);
  maker.alloc(1, 20).event(Action::kFreeCompleted, 1, 20);
  const Trace trace = maker.finish();
  EXPECT_EQ(whole_frees(trace), 2u);
  EXPECT_EQ(maker.diagnostics().count(kLoneFrees), 2u);
}

TEST(LoneFrees, a_free_of_older_memory_proves_nothing) {
  TraceMaker maker;
  maker.alloc(1, 10).event(Action::kFreeCompleted, 9, 90);
  EXPECT_EQ(whole_frees(maker.finish()), 0u);
}

TEST(LoneFrees, a_file_with_both_events_is_left_alone) {
  TraceMaker maker;
  maker.alloc(1, 10).free(1, 10).alloc(2, 20).event(Action::kFreeCompleted, 2, 20);
  EXPECT_EQ(whole_frees(maker.finish()), 0u);
}

TEST(LoneFrees, a_block_that_waits_for_a_stream_at_the_end_keeps_its_request) {
  TraceMaker maker;
  maker.alloc(0, 512).event(Action::kFreeRequested, 0, 512);
  maker.alloc(0, 512).event(Action::kFreeRequested, 0, 512);
  maker.segment(0, 2048, {TraceMaker::block(0, 512, 512, BlockState::kActivePendingFree)});
  const Trace trace = maker.finish();
  EXPECT_EQ(whole_frees(trace), 1u);
  EXPECT_EQ(trace.devices[0].events.action[3], Action::kFreeRequested);
}

TEST(LoneFrees, without_segments_a_lone_request_may_still_be_pending) {
  TraceMaker maker;
  maker.alloc(1, 10).event(Action::kFreeRequested, 1, 10);
  EXPECT_EQ(whole_frees(maker.finish()), 0u);
}

}  // namespace
}  // namespace plimsoll::model
