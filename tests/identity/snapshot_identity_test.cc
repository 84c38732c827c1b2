// A snapshot that is read, exported and read again gives the same model: none of the data of
// PyTorch's format that Plimsoll uses are lost.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "attribution/inferred_roles.h"
#include "base/progress.h"
#include "engine/load.h"
#include "exporters/torch_snapshot/torch_snapshot_exporter.h"
#include "tests/support/export_generated.h"
#include "tests/support/random_trace.h"
#include "tests/support/samples.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_difference.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tests {
namespace {

namespace fs = std::filesystem;

model::Trace read(const fs::path& path) {
  base::Progress progress;
  auto loaded = engine::load(path.string(), progress);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return loaded.ok() ? std::move(loaded.value().trace) : model::Trace{};
}

model::Trace written_and_read(const model::Trace& trace) {
  const TemporaryFolder folder;
  const fs::path path = fs::path(folder.path()) / "written.pickle";
  std::ofstream(path, std::ios::binary) << exported(*exporters::torch_snapshot::make(), trace);
  return read(path);
}

TEST(SnapshotIdentity, slow_of_every_sample) {
  PLIMSOLL_NEEDS_SAMPLES();
  std::size_t count = 0;
  for (const auto& file : fs::directory_iterator(samples_folder() / "snapshots")) {
    SCOPED_TRACE(file.path().filename());
    const model::Trace trace = read(file.path());
    EXPECT_EQ(TraceDifference::of(trace, written_and_read(trace)), "");
    ++count;
  }
  EXPECT_GT(count, 0u);
}

TEST(SnapshotIdentity, of_random_traces) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    model::Trace trace = RandomTrace({.seed = seed, .events = 2000}).make();
    attribution::infer_roles(trace);  // as for any snapshot
    EXPECT_EQ(TraceDifference::of(trace, written_and_read(trace)), "") << "seed " << seed;
  }
}

// Everything that the format can express, in one small trace.
TEST(SnapshotIdentity, of_every_field) {
  using model::BlockState;
  using model::DeviceType;
  TraceMaker maker;
  model::TraceBuilder& builder = maker.builder();
  model::Frame noted;
  noted.file = maker.string("graph.py");
  noted.function = maker.string("forward");
  noted.line = 0xFFFF'FFFF;
  noted.notes =
      builder.stacks().add_notes({{maker.string("fx_node_op"), maker.string("call_function")},
                                  {maker.string("fx_node_name"), maker.string("mul")}});
  const model::FrameId frame = builder.stacks().intern_frame(noted);
  const auto stack = builder.stacks().intern_stack({&frame, 1});
  const auto pool = builder.pool({0, 7});

  for (std::int32_t ordinal : {0, 2}) {
    maker.on({DeviceType::kCuda, ordinal});
    maker.segment(
        1u << 21, 1u << 21,
        {TraceMaker::block(1u << 21, 512, 500, BlockState::kActiveAllocated, stack),
         TraceMaker::block((1u << 21) + 512, 512, 400, BlockState::kActivePendingFree,
                           model::kEmptyStack),
         TraceMaker::block((1u << 21) + 1024, (1u << 21) - 1024, 3, BlockState::kInactive)},
        pool);
    model::Event event;
    event.action = model::Action::kAlloc;
    event.address = 1u << 21;
    event.size_bytes = 500;
    event.stream = builder.stream(0x7fff'1234'5678);
    event.stack = stack;
    event.pool = pool;
    event.category = maker.string("gradient");
    event.compile_context = maker.string("N/A");
    event.user_metadata = maker.string("note \xed\xb3\xbf");
    maker.event(event);
    for (auto action :
         {model::Action::kSegmentAlloc, model::Action::kSegmentFree, model::Action::kSegmentMap,
          model::Action::kSegmentUnmap, model::Action::kSnapshot, model::Action::kOom,
          model::Action::kAnnotate, model::Action::kUnknown}) {
      maker.event(action, 0xFFFF'FFFF'FFFF'FFFF, 1ull << 63, model::kEmptyStack);
    }
    maker.event(model::Action::kFreeRequested, (1u << 21) + 512, 400);
  }
  maker.on({DeviceType::kCuda, 0});
  maker.annotation("inner", 5'000, 5'000).annotation("inner", 3'000, 5'000);
  maker.annotation("step", 5'000, 9'000).annotation("cut", model::kNoTime, 9'000);
  maker.annotation("open", 1'000, model::kNoTime);
  builder.add_setting({"PYTORCH_CUDA_ALLOC_CONF", std::string("expandable_segments:True")});
  builder.add_setting({"max_split_size", std::int64_t{-1}});
  builder.add_setting({"garbage_collection_threshold", 0.8});
  builder.add_setting({"expandable_segments", true});
  builder.add_setting({"roundup_power2_divisions.1", std::int64_t{0}});
  builder.add_setting({"roundup_power2_divisions.2", std::int64_t{4}});
  builder.name_device({DeviceType::kCuda, 1});
  maker.on({DeviceType::kPinnedHost, -2}).alloc(0x1000, 64).free(0x1000, 64);

  const model::Trace trace = maker.finish();
  EXPECT_EQ(TraceDifference::of(trace, written_and_read(trace)), "");
}

// PyTorch's keys know only CUDA devices, and an empty list of segments means that nothing is live.
TEST(SnapshotIdentity, of_devices_that_are_not_cuda_and_have_no_segments) {
  using model::DeviceType;
  const auto without_segments = [](model::Device device) {
    TraceMaker maker;
    maker.on(device).alloc(0x1000, 64).alloc(0x2000, 32).free(0x1000, 64);
    return maker.finish();
  };
  for (const model::Device device :
       {model::Device{DeviceType::kCpu, -1}, model::Device{DeviceType::kCuda, 0},
        model::Device{DeviceType::kHip, 1}, model::Device{DeviceType::kXpu, 2'000'000'000},
        model::Device{DeviceType::kOther, 0}}) {
    SCOPED_TRACE(model::to_string(device));
    const model::Trace trace = without_segments(device);
    const model::Trace again = written_and_read(trace);
    ASSERT_EQ(again.devices.back().device, device);
    EXPECT_FALSE(again.devices.back().has_final_state);
    EXPECT_EQ(again.devices.back().lifetimes.baseline_count, 0u);
  }
}

TEST(SnapshotIdentity, of_a_cpu_alongside_a_gpu) {
  using model::DeviceType;
  TraceMaker maker;
  maker.on({DeviceType::kCpu, -1}).alloc(0x1000, 64);
  maker.annotation("step", 1'000, 9'000);
  maker.on({DeviceType::kCuda, 1}).alloc(1u << 21, 512);
  maker.segment(1u << 21, 1u << 21,
                {TraceMaker::block(1u << 21, 1u << 21, 512, model::BlockState::kActiveAllocated)});
  maker.builder().final_state_unknown({DeviceType::kCpu, -1});
  const model::Trace trace = maker.finish();
  const model::Trace again = written_and_read(trace);
  ASSERT_EQ(again.devices.size(), 3u) << "cuda:0 has no events";
  EXPECT_FALSE(again.devices[2].has_final_state);
  EXPECT_TRUE(again.devices[1].has_final_state);
  EXPECT_EQ(again.devices[2].device, trace.devices[1].device);
  EXPECT_EQ(again.annotations.at(0).device, trace.annotations.at(0).device);
}

}  // namespace
}  // namespace plimsoll::tests
