#include "analysis/evidence/spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::evidence {
namespace {

using model::Phase;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::TraceMaker;

void alloc(TraceMaker& maker, std::uint64_t address, Phase phase) {
  maker.alloc_reported(address, 512, {.phase = phase});
}

std::vector<std::uint32_t> ends_of(TraceMaker& maker) {
  const model::Trace trace = maker.finish();
  return backward_ends(trace, trace.devices.at(0));
}

// A training step on a GPU: the end of its backward is reported only when the next one begins.
TraceMaker one_step_on_a_gpu() {
  TraceMaker maker;
  maker.on(model::Device{});
  alloc(maker, 1, Phase::kForward);
  maker.begin_backward();
  alloc(maker, 2, Phase::kBackward);
  alloc(maker, 3, Phase::kOther);  // by another thread
  alloc(maker, 4, Phase::kBackward);
  return maker;
}

TEST(BackwardEnds, a_late_end_is_moved_to_what_is_allocated_after_the_backward) {
  TraceMaker maker = one_step_on_a_gpu();
  maker.free(1, 512);
  alloc(maker, 5, Phase::kForward);
  maker.end_backward().begin_backward();
  alloc(maker, 6, Phase::kBackward);
  EXPECT_THAT(ends_of(maker), ElementsAre(6));
}

TEST(BackwardEnds, a_late_end_is_moved_to_the_end_of_the_step) {
  TraceMaker maker = one_step_on_a_gpu();
  maker.free(1, 512).step(1);
  alloc(maker, 5, Phase::kForward);
  maker.end_backward().begin_backward();
  EXPECT_THAT(ends_of(maker), ElementsAre(6));
  TraceMaker earlier = one_step_on_a_gpu();
  earlier.step(1).free(1, 512);
  alloc(earlier, 5, Phase::kForward);
  earlier.end_backward().begin_backward();
  EXPECT_THAT(ends_of(earlier), ElementsAre(4));
}

TEST(BackwardEnds, the_last_backward_of_a_gpu_ends_too) {
  TraceMaker maker = one_step_on_a_gpu();
  alloc(maker, 5, Phase::kForward);
  EXPECT_THAT(ends_of(maker), ElementsAre(4));
}

TEST(BackwardEnds, a_backward_that_runs_when_the_recording_ends_has_no_end) {
  TraceMaker maker = one_step_on_a_gpu();
  maker.free(1, 512);
  EXPECT_THAT(ends_of(maker), IsEmpty());
}

TEST(BackwardEnds, an_end_that_is_reported_in_time_stays) {
  TraceMaker maker = one_step_on_a_gpu();
  maker.end_backward();
  alloc(maker, 5, Phase::kForward);
  maker.begin_backward().end_backward();  // of nothing on this device
  EXPECT_THAT(ends_of(maker), ElementsAre(4, 5));
}

}  // namespace
}  // namespace plimsoll::analysis::evidence
