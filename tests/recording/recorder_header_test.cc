// The C++ interface of the recorder, include/plimsoll/recorder.h, tested with the recorder itself.
#include "plimsoll/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/recorded.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using tests::api;
using tests::TraceReplay;

// Reports one allocation at `address`, in this thread's context.
void allocate(std::uint64_t address) { api().alloc(api().context(), 0, address, 8); }

Recording in_memory() { return std::move(Recording::start({})).value(); }

TraceReplay replay(const Recording& recording) { return TraceReplay::of_bytes(recording.copy()); }

// The "layer/phase" of each allocation, in order.
std::vector<std::string> places(const Recording& recording) {
  TraceReplay trace = replay(recording);
  std::vector<std::string> all;
  for (const format::Alloc& alloc : trace.allocs) {
    const format::Site& site = trace.sites.at(alloc.site);
    all.push_back(trace.names[site.layer] + "/" + std::to_string(site.phase));
  }
  return all;
}

TEST(RecorderHeader, layers_nest_into_paths_and_end_with_their_blocks) {
  const Recording recording = in_memory();
  allocate(1);
  {
    PLIMSOLL_LAYER("Net");
    allocate(2);
    {
      PLIMSOLL_LAYER("fc1");
      allocate(3);
    }
    {
      PLIMSOLL_LAYER("fc2");
      PLIMSOLL_LAYER("act");
      allocate(4);
    }
    allocate(5);
  }
  allocate(6);
  EXPECT_THAT(places(recording),
              ElementsAre("/0", "Net/1", "Net.fc1/1", "Net.fc2.act/1", "Net/1", "/0"));
}

// A macro is one line to the compiler.
#define TWO_LAYERS       \
  PLIMSOLL_LAYER("a");   \
  PLIMSOLL_LAYER("b");   \
  PLIMSOLL_REGION("r1"); \
  PLIMSOLL_REGION("r2")

TEST(RecorderHeader, several_scopes_can_be_on_one_line) {
  const Recording recording = in_memory();
  TWO_LAYERS;
  allocate(1);
  EXPECT_THAT(places(recording), ElementsAre("a.b/1"));
}

TEST(RecorderHeader, one_name_inside_two_layers_is_two_layers) {
  const Recording recording = in_memory();
  const auto block = [](std::uint64_t address) {
    PLIMSOLL_LAYER("conv");
    allocate(address);
  };
  for (std::uint64_t round = 0; round < 2; ++round) {
    {
      PLIMSOLL_LAYER("down");
      block(10 * round + 1);
    }
    PLIMSOLL_LAYER("up");
    block(10 * round + 2);
  }
  EXPECT_THAT(places(recording),
              ElementsAre("down.conv/1", "up.conv/1", "down.conv/1", "up.conv/1"));
}

TEST(RecorderHeader, a_layer_is_left_when_an_exception_is_thrown) {
  const Recording recording = in_memory();
  try {
    PLIMSOLL_LAYER("Net");
    throw 1;
  } catch (int) {
    allocate(1);
  }
  PLIMSOLL_LAYER("Other");
  allocate(2);
  EXPECT_THAT(places(recording), ElementsAre("/0", "Other/1"));
}

TEST(RecorderHeader, a_layer_in_the_optimizer_or_backward_keeps_that_phase) {
  const Recording recording = in_memory();
  PLIMSOLL_LAYER("Net");
  {
    const OptimizerPhase phase;
    allocate(1);
    PLIMSOLL_LAYER("inner");
    allocate(2);
  }
  {
    const DataPhase phase;
    allocate(3);
  }
  allocate(4);
  EXPECT_THAT(places(recording), ElementsAre("/3", "Net.inner/3", "/4", "Net/1"));
}

TEST(RecorderHeader, each_thread_has_layers_of_its_own) {
  const Recording recording = in_memory();
  PLIMSOLL_LAYER("Net");
  std::thread([] {
    allocate(1);
    PLIMSOLL_LAYER("Worker");
    allocate(2);
  }).join();
  allocate(3);
  EXPECT_THAT(places(recording), ElementsAre("/0", "Worker/1", "Net/1"));
}

TEST(RecorderHeader, a_scope_entered_before_the_recording_is_not_known_to_it) {
  PLIMSOLL_LAYER("Early");
  PLIMSOLL_REGION("early");
  const Recording recording = in_memory();
  PLIMSOLL_LAYER("Net");
  allocate(1);
  EXPECT_THAT(places(recording), ElementsAre("Net/1"));
  EXPECT_THAT(replay(recording).marks, IsEmpty());
}

TEST(RecorderHeader, a_scope_left_after_the_recording_ended_leaves_no_layer_behind) {
  {
    Recording first = in_memory();
    PLIMSOLL_LAYER("Net");
    first.stop();
  }
  const Recording second = in_memory();
  allocate(1);
  EXPECT_THAT(places(second), ElementsAre("/0"));
}

TEST(RecorderHeader, more_layers_than_the_cache_has_places_are_all_reported_right) {
  const Recording recording = in_memory();
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("layer" + std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const LayerScope scope(names[i].c_str());
      EXPECT_EQ(api().context()->layer, tests::name(names[i]));
    }
  }
}

TEST(RecorderHeader, regions_and_steps_are_marked) {
  const Recording recording = in_memory();
  {
    PLIMSOLL_REGION("evaluation");
    step(41);
  }
  step();
  TraceReplay trace = replay(recording);
  ASSERT_THAT(trace.marks, SizeIs(4));
  EXPECT_EQ(trace.marks[0].kind, PLIMSOLL_MARK_REGION_BEGIN);
  EXPECT_EQ(trace.names[static_cast<std::uint32_t>(trace.marks[0].value)], "evaluation");
  EXPECT_EQ(trace.marks[1].kind, PLIMSOLL_MARK_STEP);
  EXPECT_EQ(trace.marks[1].value, 41u);
  EXPECT_EQ(trace.marks[2].kind, PLIMSOLL_MARK_REGION_END);
  EXPECT_EQ(trace.marks[3].kind, PLIMSOLL_MARK_STEP);
}

TEST(RecorderHeader, scopes_do_nothing_while_no_recording_runs) {
  const plimsoll_context before = *api().context();
  PLIMSOLL_LAYER("Net");
  PLIMSOLL_REGION("region");
  const OptimizerPhase phase;
  step();
  EXPECT_EQ(api().context()->layer, before.layer);
  EXPECT_EQ(api().context()->phase, before.phase);
}

TEST(RecorderHeader, a_file_holds_what_was_recorded_and_what_was_reported_of_it) {
  const tests::TemporaryPath path("recorder_header");
  Recording recording =
      std::move(Recording::start({.path = path.str(), .meta = {{"program", "test"}}})).value();
  EXPECT_TRUE(recording.is_running());
  allocate(1);
  allocate(2);
  recording.flush();
  EXPECT_EQ(recording.state().live_bytes, 16u);
  EXPECT_EQ(recording.peak_bytes(), 16u);
  api().free(api().context(), 0, 1);
  EXPECT_EQ(recording.reset_peak(), 16u);
  EXPECT_EQ(recording.peak_bytes(), 8u);

  const RecordingState state = recording.stop();
  EXPECT_FALSE(recording.is_running());
  EXPECT_EQ(state.live_bytes, 8u);
  EXPECT_EQ(recording.stop().written_bytes, state.written_bytes);
  TraceReplay trace = TraceReplay::of_file(path.str());
  EXPECT_THAT(trace.allocs, SizeIs(2));
  EXPECT_EQ(trace.meta["program"], "test");
  EXPECT_TRUE(trace.is_ended);
}

TEST(RecorderHeader, an_earlier_trace_is_kept_unless_it_may_be_overwritten) {
  const tests::TemporaryPath path("recorder_overwrite");
  std::move(Recording::start({.path = path.str()})).value().stop();
  Recording second = std::move(Recording::start({.path = path.str()})).value();
  EXPECT_EQ(second.path(), path.str() + ".2");
  unlink(second.path().c_str());
  second.stop();
  Recording third = std::move(Recording::start({.path = path.str(), .overwrite = true})).value();
  EXPECT_EQ(third.path(), path.str());
}

TEST(RecorderHeader, a_recording_that_cannot_start_says_why) {
  const Result<Recording> recording = Recording::start({.path = "/dev/null/x.plim"});
  ASSERT_FALSE(recording);
  EXPECT_THAT(recording.error().message, HasSubstr("/dev/null/x.plim"));
}

TEST(RecorderHeader, a_recording_moves) {
  static_assert(!std::is_copy_constructible_v<Recording>);
  Recording first = in_memory();
  allocate(1);
  Recording second = std::move(first);
  EXPECT_TRUE(second.is_running());
  second = in_memory();
  EXPECT_EQ(api().is_recording(), 1);
  second.stop();
  EXPECT_EQ(api().is_recording(), 0);
  EXPECT_THAT(second.copy(), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
