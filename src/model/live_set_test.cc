#include "model/live_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tests::TraceMaker;

// Rows: 0 born before and pending, 1 freed by events 3 and 4 only, 2 born at 0, 3 born at 1.
class LiveSet : public testing::Test {
 protected:
  LiveSet() {
    maker_.alloc(0x100, 10).alloc(0x200, 20).event(Action::kFreeRequested, 0x100, 10);
    maker_.free(0x900, 90).event(Action::kFreeCompleted, 0x100, 10);
    maker_.segment(0, 4096,
                   {TraceMaker::block(0x200, 512, 20),
                    TraceMaker::block(0x700, 512, 70, BlockState::kActivePendingFree)});
    trace_ = maker_.finish();
  }
  std::vector<std::uint32_t> rows(Liveness liveness, std::int64_t event) const {
    return live_set(trace_.devices[0], liveness, event);
  }
  TraceMaker maker_;
  Trace trace_;
};

TEST_F(LiveSet, before_the_first_event_only_the_baseline_is_live) {
  EXPECT_THAT(rows(Liveness::kActive, kBeforeFirst), ElementsAre(0, 1));
  EXPECT_THAT(rows(Liveness::kAllocated, kBeforeFirst), ElementsAre(1));
}

TEST_F(LiveSet, a_point_includes_its_event) {
  EXPECT_THAT(rows(Liveness::kActive, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(rows(Liveness::kActive, 1), ElementsAre(0, 1, 2, 3));
}

TEST_F(LiveSet, requested_frees_end_allocated_and_completed_frees_end_active) {
  EXPECT_THAT(rows(Liveness::kAllocated, 2), ElementsAre(1, 3));
  EXPECT_THAT(rows(Liveness::kActive, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows(Liveness::kAllocated, 3), ElementsAre(3));
  EXPECT_THAT(rows(Liveness::kActive, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows(Liveness::kActive, 4), ElementsAre(0, 2, 3));
  EXPECT_THAT(rows(Liveness::kActive, 5), ElementsAre(0, 3));
}

TEST(LiveSetOfNothing, is_empty) {
  EXPECT_THAT(live_set(DeviceTrace{}, Liveness::kActive, 5), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::model
