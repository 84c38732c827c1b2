#include "model/lifetime_pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/diagnostics.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tests::TraceMaker;

struct Life {
  std::uint32_t alloc, free_requested, free_completed, block;
  friend bool operator==(const Life&, const Life&) = default;
};

std::vector<Life> lives(const Trace& trace) {
  const Lifetimes& rows = trace.devices.at(0).lifetimes;
  std::vector<Life> lives;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lives.push_back({rows.alloc[i], rows.free_requested[i], rows.free_completed[i], rows.block[i]});
  }
  return lives;
}

TEST(LifetimePairing, an_alloc_is_paired_with_its_frees) {
  TraceMaker maker;
  maker.alloc(1, 10).alloc(2, 20).free(1, 10);
  const Trace trace = maker.finish();
  EXPECT_THAT(lives(trace), ElementsAre(Life{0, 2, 3, kNone}, Life{1, kNone, kNone, kNone}));
  EXPECT_THAT(maker.diagnostics().all(), IsEmpty());
}

TEST(LifetimePairing, a_reused_address_is_another_lifetime) {
  TraceMaker maker;
  maker.alloc(1, 10).free(1, 10).alloc(1, 30);
  EXPECT_THAT(lives(maker.finish()),
              ElementsAre(Life{0, 1, 2, kNone}, Life{3, kNone, kNone, kNone}));
}

TEST(LifetimePairing, a_free_without_alloc_ends_an_allocation_from_before_the_recording) {
  TraceMaker maker;
  maker.alloc(1, 10).free(9, 90);
  const Trace trace = maker.finish();
  EXPECT_THAT(lives(trace), ElementsAre(Life{kNone, 1, 2, kNone}, Life{0, kNone, kNone, kNone}));
  EXPECT_EQ(trace.devices[0].lifetimes.baseline_count, 1u);
  EXPECT_EQ(trace.size_bytes(trace.devices[0], 0), 90u);
  EXPECT_EQ(maker.diagnostics().count(kFreeWithoutAlloc), 1u);
}

TEST(LifetimePairing, the_ring_may_begin_in_the_middle_of_a_free) {
  TraceMaker maker;
  maker.event(Action::kFreeCompleted, 9, 90);
  EXPECT_THAT(lives(maker.finish()), ElementsAre(Life{kNone, kBeforeRecording, 0, kNone}));
}

TEST(LifetimePairing, a_free_in_one_event_ends_an_allocation_from_before_the_recording) {
  TraceMaker maker;
  maker.free_immediately(9, 90);
  EXPECT_THAT(lives(maker.finish()), ElementsAre(Life{kNone, 0, 0, kNone}));
}

TEST(LifetimePairing, free_completed_alone_counts_as_both) {
  TraceMaker maker;
  maker.alloc(1, 10).event(Action::kFreeCompleted, 1, 10);
  EXPECT_THAT(lives(maker.finish()), ElementsAre(Life{0, 1, 1, kNone}));
}

TEST(LifetimePairing, an_alloc_at_a_live_address_ends_the_older_one) {
  TraceMaker maker;
  maker.alloc(1, 10).alloc(1, 20);
  EXPECT_THAT(lives(maker.finish()),
              ElementsAre(Life{0, 1, 1, kNone}, Life{1, kNone, kNone, kNone}));
  EXPECT_EQ(maker.diagnostics().count(kAllocOverLive), 1u);
}

TEST(LifetimePairing, final_blocks_belong_to_live_lifetimes) {
  TraceMaker maker;
  maker.alloc(0x100, 10).event(Action::kFreeRequested, 0x300, 7);
  maker.segment(0x100, 4096,
                {TraceMaker::block(0x100, 512, 10), TraceMaker::block(0x200, 512, 50),
                 TraceMaker::block(0x300, 512, 7, BlockState::kActivePendingFree),
                 TraceMaker::block(0x400, 512, 60, BlockState::kActivePendingFree),
                 TraceMaker::block(0x500, 512, 1, BlockState::kInactive)});
  EXPECT_THAT(lives(maker.finish()),
              ElementsAre(Life{kNone, kNone, kNone, 1}, Life{kNone, kBeforeRecording, kNone, 3},
                          Life{kNone, 1, kNone, 2}, Life{0, kNone, kNone, 0}));
  EXPECT_EQ(maker.diagnostics().count(kLiveBeforeRecording), 2u);
}

TEST(LifetimePairing, events_and_blocks_that_disagree_are_counted) {
  TraceMaker maker;
  maker.alloc(0x100, 10).alloc(0x200, 20).alloc(0x300, 30).free(0x300, 31);
  maker.event(Action::kFreeRequested, 0x200, 20);
  maker.segment(0, 4096, {TraceMaker::block(0x200, 512, 21)});
  maker.finish();
  EXPECT_EQ(maker.diagnostics().count(kLiveWithoutBlock), 1u);  // 0x100
  EXPECT_EQ(maker.diagnostics().count(kBlockSizeDiffers), 1u);  // 0x200
  EXPECT_EQ(maker.diagnostics().count(kBlockWhileFreed), 1u);   // 0x200
  EXPECT_EQ(maker.diagnostics().count(kFreeSizeDiffers), 1u);   // 0x300
}

TEST(LifetimePairing, devices_may_use_the_same_addresses) {
  TraceMaker maker;
  maker.on({DeviceType::kCuda, 1}).alloc(1, 10).on({DeviceType::kCuda, 0}).alloc(1, 20);
  maker.on({DeviceType::kCuda, 1}).free(1, 10);
  const Trace trace = maker.finish();
  ASSERT_EQ(trace.devices.size(), 2u);
  EXPECT_EQ(trace.devices[0].lifetimes.free_completed[0], kNone);
  EXPECT_EQ(trace.devices[1].lifetimes.free_completed[0], 2u);
}

}  // namespace
}  // namespace plimsoll::model
