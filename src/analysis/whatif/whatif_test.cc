#include "analysis/whatif/whatif.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::whatif {
namespace {

using tests::TraceMaker;

// Three tensors of 100 bytes that are live at the same time, then one of 250.
model::Trace three_then_one() {
  TraceMaker maker;
  maker.on(model::Device{});
  for (std::uint64_t address : {1, 2, 3}) maker.alloc_reported(address, 100, {});
  for (std::uint64_t address : {1, 2, 3}) maker.free_immediately(address, 100);
  maker.alloc_reported(4, 250, {});
  return maker.finish();
}

TEST(Replay, peaks_where_the_recording_does) {
  const model::Trace trace = three_then_one();
  EXPECT_EQ(Replay(trace, trace.devices.at(0)).peak_bytes(), 300u);
}

TEST(Replay, saves_only_down_to_the_next_peak) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t all[] = {0, 1, 2};
  EXPECT_EQ(replay.never_made(all), 50u);
  EXPECT_EQ(replay.never_made({}), 0u);
}

TEST(Replay, frees_at_an_event) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const auto saving = [&](std::uint32_t event) {
    const whatif::Freed first{0, event};
    return replay.freed_early(std::span(&first, 1));
  };
  EXPECT_EQ(saving(2), 50u);  // before the third is made; later 250
  EXPECT_EQ(saving(3), 0u);
  EXPECT_EQ(saving(model::kNone), 0u);
}

TEST(Replay, keeps_at_most_a_number) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t all[] = {0, 1, 2};
  EXPECT_EQ(replay.at_most(2, all), 50u);
  EXPECT_EQ(replay.at_most(3, all), 0u);
}

TEST(Replay, keeps_the_last_tensor_of_a_run_that_is_computed_again) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const auto saving = [&](std::uint32_t done) {
    const whatif::Run run{.rows = {0, 1, 2}, .done = done};
    return replay.recomputed(std::span(&run, 1));
  };
  EXPECT_EQ(saving(2), 50u);  // the third is live, and later 250
  EXPECT_EQ(saving(3), 0u);   // all three were live together
}

TEST(Replay, knows_memory_from_before_the_recording) {
  TraceMaker maker;
  maker.on(model::Device{});
  maker.alloc(2, 10);
  maker.free_immediately(1, 100);
  const model::Trace trace = maker.finish();
  ASSERT_EQ(trace.devices.at(0).lifetimes.baseline_count, 1u);
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t before[] = {0};
  EXPECT_EQ(replay.peak_bytes(), 110u);
  EXPECT_EQ(replay.never_made(before), 100u);
}

TEST(Replay, keeps_one_whole_gradient_of_what_runs_in_chunks_and_what_it_reads) {
  TraceMaker maker;
  maker.on(model::Device{});
  maker.alloc_reported(9, 480, {});                                              // read
  for (std::uint64_t address : {1, 2}) maker.alloc_reported(address, 1600, {});  // forward
  maker.free_immediately(9, 480);
  maker.alloc_reported(3, 1600, {}).alloc_reported(4, 1600, {});  // backward
  for (std::uint64_t address : {1, 2, 3, 4}) maker.free_immediately(address, 1600);
  const model::Trace trace = maker.finish();
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t read[] = {0}, forward[] = {1, 2}, backward[] = {3, 4};
  EXPECT_EQ(replay.peak_bytes(), 6400u);
  EXPECT_EQ(replay.in_chunks(forward, backward, read), 4120u) << "two chunks, a gradient, read";
  EXPECT_EQ(replay.in_chunks(forward, backward, {}), 4600u);
  EXPECT_EQ(replay.in_chunks(forward, {}, read), 3000u);
}

}  // namespace
}  // namespace plimsoll::analysis::whatif
