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
  const std::uint32_t first[] = {0};
  EXPECT_EQ(replay.freed_at(first, [](std::uint32_t) { return 2u; }), 50u);  // 250 are left
  EXPECT_EQ(replay.freed_at(first, [](std::uint32_t) { return 3u; }), 0u);   // after the third
}

TEST(Replay, keeps_at_most_a_number) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t all[] = {0, 1, 2};
  EXPECT_EQ(replay.at_most(2, all), 50u);
  EXPECT_EQ(replay.at_most(3, all), 0u);
}

TEST(Replay, keeps_what_a_divided_tensor_still_needs) {
  const model::Trace trace = three_then_one();
  const Replay replay(trace, trace.devices.at(0));
  const std::uint32_t all[] = {0, 1, 2, 3};
  EXPECT_EQ(replay.divided(2, all), 150u);
  EXPECT_EQ(replay.divided(1, all), 0u);
}

}  // namespace
}  // namespace plimsoll::analysis::whatif
