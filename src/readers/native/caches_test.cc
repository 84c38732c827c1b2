// The model of caching allocators in a trace file.
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/trace_builder.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/diagnostics.h"
#include "readers/native/native_reader.h"
#include "tests/support/trace_file.h"

namespace plimsoll::readers::native {
namespace {

using model::Action;
using model::BlockState;
using model::SegmentType;
using testing::ElementsAre;
using testing::SizeIs;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint8_t kCuda = 1;

// One thread, with events a microsecond apart. Site 1 is on the CPU, site 2 on cuda:3, and site 3
// also on cuda:3, on stream 7 in the pool "4.5".
class Caches : public testing::Test {
 protected:
  Caches() : encoder(file) {
    encoder.define_device(kCuda, {PLIMSOLL_DEVICE_CUDA, 3});
    encoder.define_name(1, "4.5");
    encoder.define_name(2, "train.py");
    encoder.define_stack(1, std::vector<format::Frame>{{2, 2, 12}});
    encoder.define_site(1, {});
    encoder.define_site(2, {.stack = 1, .device = kCuda});
    encoder.define_site(3, {.stack = 1, .device = kCuda, .stream = 7, .pool = 1});
  }
  void alloc(std::uint64_t serial, std::uint64_t address, std::uint64_t size, std::uint64_t padding,
             std::uint32_t site = 2) {
    encoder.alloc({now += 1'000, 1, site, serial, address, size, false, padding});
  }
  void free_requested(std::uint64_t serial) {
    encoder.free_requested({now += 1'000, 1, serial, false});
  }
  void free(std::uint64_t serial) { encoder.free({now += 1'000, 1, serial, 0, false}); }
  void segment(std::uint8_t action, std::uint64_t address, std::uint64_t size,
               std::uint32_t site = 2) {
    encoder.segment({now += 1'000, 1, site, action, kCuda, address, size});
  }
  const model::DeviceTrace& finish() {
    encoder.finish(now);
    model::TraceBuilder builder(diagnostics);
    base::Progress progress;
    ReadContext context{builder, diagnostics, progress, Limits{.memory_bytes = 1 << 30}};
    const auto source = view_memory(file.bytes(), SIZE_MAX);
    EXPECT_TRUE(make()->read(*source, context));
    auto made = builder.finish(make()->name(), progress);
    EXPECT_TRUE(made.ok());
    if (made.ok()) trace = std::move(*made);
    for (const model::DeviceTrace& device : trace.devices) {
      if (device.device.type == model::DeviceType::kCuda) return device;
    }
    ADD_FAILURE() << "no CUDA device";
    return trace.devices.front();
  }
  std::vector<std::string> actions(const model::DeviceTrace& device) const {
    std::vector<std::string> all;
    for (std::size_t e = 0; e < device.events.size(); ++e) {
      all.emplace_back(to_string(device.events.action[e]));
    }
    return all;
  }
  // "4096+512 inactive", for each block of one segment.
  std::vector<std::string> blocks(const model::Segment& segment) const {
    std::vector<std::string> all;
    for (const auto& block : trace.blocks.span(segment.first_block, segment.block_count)) {
      const char* state = block.state == BlockState::kInactive          ? " inactive"
                          : block.state == BlockState::kActiveAllocated ? " allocated"
                                                                        : " pending";
      all.push_back(std::to_string(block.address - segment.address) + "+" +
                    std::to_string(block.size) + state);
    }
    return all;
  }

  tests::TraceFile file;
  format::Encoder encoder;
  base::Diagnostics diagnostics;
  model::Trace trace;
  std::int64_t now = 1'000'000;
};

TEST_F(Caches, their_segments_and_blocks_are_the_final_state) {
  segment(PLIMSOLL_SEGMENT_ALLOC, 2 * kMiB, 2 * kMiB);
  alloc(1, 2 * kMiB, 1000, 24);
  alloc(2, 2 * kMiB + 1024, 512, 0);
  alloc(3, 2 * kMiB + 1536, 512, 0);
  free_requested(1);
  free_requested(2);
  free(2);
  const model::DeviceTrace& device = finish();
  EXPECT_THAT(actions(device), ElementsAre("segment_alloc", "alloc", "alloc", "alloc",
                                           "free_requested", "free_requested", "free_completed"));
  EXPECT_TRUE(device.has_final_state);
  EXPECT_TRUE(device.has_block_sizes);
  ASSERT_EQ(device.segment_count, 1u);
  const model::Segment& only = trace.segments[0];
  EXPECT_THAT(blocks(only), ElementsAre("0+1024 pending", "1024+512 inactive", "1536+512 allocated",
                                        "2048+2095104 inactive"));
  EXPECT_EQ(only.allocated_size, 512u);
  EXPECT_EQ(only.active_size, 1536u);
  EXPECT_EQ(only.requested_size, 1512u);
  EXPECT_EQ(only.type, SegmentType::kSmall);
  EXPECT_FALSE(only.is_expandable);
  EXPECT_EQ(trace.stacks.frames(only.stack).size(), 1u);
  EXPECT_EQ(trace.block_bytes(device, 0), 1024u);
  EXPECT_EQ(trace.size_bytes(device, 0), 1000u);
  EXPECT_EQ(diagnostics.count(kBlockOutsideSegments), 0u);
}

TEST_F(Caches, adjacent_pages_form_one_segment) {
  segment(PLIMSOLL_SEGMENT_MAP, 40 * kMiB, 20 * kMiB, 3);
  segment(PLIMSOLL_SEGMENT_MAP, 60 * kMiB, 20 * kMiB, 3);
  alloc(1, 40 * kMiB, 3 * kMiB, 0, 3);
  free(1);
  segment(PLIMSOLL_SEGMENT_MAP, 80 * kMiB, 20 * kMiB, 2);  // of another stream
  segment(PLIMSOLL_SEGMENT_UNMAP, 40 * kMiB, 20 * kMiB, 3);
  const model::DeviceTrace& device = finish();
  ASSERT_EQ(device.segment_count, 2u);
  EXPECT_EQ(trace.segments[0].address, 60 * kMiB);
  EXPECT_EQ(trace.segments[0].total_size, 20 * kMiB);
  EXPECT_TRUE(trace.segments[0].is_expandable);
  EXPECT_EQ(trace.streams[trace.segments[0].stream.index()], 7u);
  EXPECT_EQ(trace.segments[1].address, 80 * kMiB);
}

TEST_F(Caches, streams_and_pools_are_those_of_the_site) {
  segment(PLIMSOLL_SEGMENT_ALLOC, 40 * kMiB, 20 * kMiB, 3);
  alloc(1, 40 * kMiB, 3 * kMiB, 0, 3);
  free(1);
  const model::DeviceTrace& device = finish();
  for (const std::size_t e : {1u, 2u}) {
    const model::Event event = trace.event(device, e);
    EXPECT_EQ(trace.streams[event.stream.index()], 7u);
    EXPECT_EQ(trace.pools[event.pool.index()], (model::Pool{4, 5}));
  }
  EXPECT_EQ(trace.pools[trace.segments[0].pool.index()], (model::Pool{4, 5}));
  EXPECT_EQ(trace.segments[0].type, SegmentType::kLarge);
}

TEST_F(Caches, a_segment_without_allocations_has_its_pool) {
  segment(PLIMSOLL_SEGMENT_ALLOC, 40 * kMiB, 20 * kMiB, 3);
  segment(PLIMSOLL_SEGMENT_MAP, 80 * kMiB, 20 * kMiB, 3);
  segment(PLIMSOLL_SEGMENT_MAP, 100 * kMiB, 20 * kMiB, 2);  // without a pool: a different segment
  const model::DeviceTrace& device = finish();
  ASSERT_EQ(device.segment_count, 3u);
  EXPECT_EQ(trace.pools[trace.segments[0].pool.index()], (model::Pool{4, 5}));
  EXPECT_EQ(trace.pools[trace.segments[1].pool.index()], (model::Pool{4, 5}));
  EXPECT_EQ(trace.segments[2].pool, model::PoolId{});
  EXPECT_EQ(trace.pools[trace.site(device, 0).pool.index()], (model::Pool{4, 5}));
}

TEST_F(Caches, the_last_reported_allocator_settings_count) {
  encoder.define_name(10, "expandable_segments");
  encoder.define_name(11, "garbage_collection_threshold");
  encoder.define_name(12, "PYTORCH_CUDA_ALLOC_CONF");
  encoder.define_name(13, "roundup_power2_divisions.1");
  encoder.setting({10, PLIMSOLL_SETTING_BOOLEAN, 0});
  encoder.setting({11, PLIMSOLL_SETTING_NUMBER, std::bit_cast<std::uint64_t>(0.8)});
  encoder.setting({12, PLIMSOLL_SETTING_TEXT, 0});
  encoder.setting({13, PLIMSOLL_SETTING_INTEGER, ~std::uint64_t{0}});
  encoder.setting({10, PLIMSOLL_SETTING_BOOLEAN, 1});
  encoder.setting({10, 77, 0});  // from a later version
  segment(PLIMSOLL_SEGMENT_ALLOC, 40 * kMiB, 20 * kMiB);
  finish();
  EXPECT_TRUE(trace.has_settings);
  ASSERT_THAT(trace.settings, SizeIs(4));
  EXPECT_TRUE(std::get<bool>(trace.setting("expandable_segments")->value));
  EXPECT_EQ(std::get<double>(trace.setting("garbage_collection_threshold")->value), 0.8);
  EXPECT_EQ(std::get<std::string>(trace.setting("PYTORCH_CUDA_ALLOC_CONF")->value), "");
  EXPECT_EQ(std::get<std::int64_t>(trace.setting("roundup_power2_divisions.1")->value), -1);
  EXPECT_EQ(diagnostics.count(kLaterVersion), 1u);
}

TEST_F(Caches, notices_are_reported_once_with_their_last_count) {
  encoder.define_name(10, "no compiler was found");
  encoder.notice({PLIMSOLL_NOTICE_SIZES_CORRECTED, kCuda, 3, 0});
  encoder.notice({PLIMSOLL_NOTICE_SIZES_CORRECTED, kCuda, 5, 0});
  encoder.notice({PLIMSOLL_NOTICE_CUDA_ADAPTER_UNAVAILABLE, 0, 1, 10});
  encoder.notice({99, 0, 1, 0});
  segment(PLIMSOLL_SEGMENT_ALLOC, 40 * kMiB, 20 * kMiB);
  finish();
  EXPECT_EQ(diagnostics.count(kSizesCorrected), 5u);
  EXPECT_EQ(diagnostics.count(kLaterVersion), 1u);
  const auto& all = diagnostics.all();
  EXPECT_EQ(all.front().first_example, "cuda:3");
  EXPECT_EQ(all[1].first_example, "no compiler was found");
}

TEST_F(Caches, running_out_of_memory_reports_the_site_and_free_memory) {
  encoder.out_of_memory({now, 1, 3, 5 * kMiB, 77, 8 * kMiB, 9 * kMiB});
  const model::DeviceTrace& device = finish();
  const model::Event event = trace.event(device, 0);
  EXPECT_EQ(event.action, Action::kOom);
  EXPECT_EQ(event.address, 77u);
  EXPECT_EQ(event.size_bytes, 5 * kMiB);
  EXPECT_EQ(trace.shortages[event.shortage.index()].limit_bytes, 8 * kMiB);
  EXPECT_EQ(trace.shortages[event.shortage.index()].total_bytes, 9 * kMiB);
  EXPECT_EQ(trace.streams[event.stream.index()], 7u);
  EXPECT_EQ(trace.stacks.frames(event.stack).size(), 1u);
  EXPECT_EQ(diagnostics.count(kDeviceFreeUnknown), 0u);
}

TEST_F(Caches, leave_other_devices_unchanged) {
  alloc(1, 64, 100, 0, 1);
  segment(PLIMSOLL_SEGMENT_ALLOC, 2 * kMiB, 2 * kMiB);
  alloc(2, 2 * kMiB, 1000, 24);
  finish();
  ASSERT_THAT(trace.devices, SizeIs(2));
  for (const model::DeviceTrace& device : trace.devices) {
    const bool is_cuda = device.device.type == model::DeviceType::kCuda;
    EXPECT_EQ(device.has_final_state, is_cuda);
    EXPECT_EQ(device.has_block_sizes, is_cuda);
    EXPECT_EQ(device.lifetimes.baseline_count, 0u);
  }
}

TEST_F(Caches, a_block_outside_every_segment_is_reported) {
  segment(PLIMSOLL_SEGMENT_ALLOC, 2 * kMiB, 2 * kMiB);
  alloc(1, 2 * kMiB, 1000, 24);
  alloc(2, 2 * kMiB + 512, 512, 0);  // overlaps the other block
  alloc(3, 9 * kMiB, 512, 0);
  alloc(4, 9 * kMiB, 3 * kMiB, 0);
  finish();
  EXPECT_EQ(diagnostics.count(kBlockOutsideSegments), 3u);
  EXPECT_EQ(trace.devices[0].allocated_before_bytes, 0u);  // so they are counted anyway
  EXPECT_EQ(trace.devices[0].reserved_before_bytes, 0u);
  EXPECT_THAT(blocks(trace.segments[0]), ElementsAre("0+1024 allocated", "1024+2096128 inactive"));
}

TEST_F(Caches, reserved_bytes_are_those_of_the_existing_segments) {
  segment(PLIMSOLL_SEGMENT_UNMAP, 2 * kMiB, kMiB << 20);
  segment(PLIMSOLL_SEGMENT_FREE, 2 * kMiB, 2 * kMiB);
  segment(PLIMSOLL_SEGMENT_ALLOC, 2 * kMiB, 2 * kMiB);
  segment(PLIMSOLL_SEGMENT_MAP, 40 * kMiB, 40 * kMiB);
  segment(PLIMSOLL_SEGMENT_MAP, 60 * kMiB, 20 * kMiB);  // the unmap is missing
  segment(PLIMSOLL_SEGMENT_UNMAP, 40 * kMiB, 60 * kMiB);
  const model::DeviceTrace& device = finish();
  EXPECT_EQ(diagnostics.count(kSegmentsContradict), 4u);
  EXPECT_THAT(actions(device), ElementsAre("segment_alloc", "segment_map", "segment_unmap",
                                           "segment_map", "segment_unmap"));
  EXPECT_THAT(std::vector(trace.devices.at(0).events.size_bytes.begin(),
                          trace.devices.at(0).events.size_bytes.end()),
              ElementsAre(2 * kMiB, 40 * kMiB, 20 * kMiB, 20 * kMiB, 40 * kMiB));
}

}  // namespace
}  // namespace plimsoll::readers::native
