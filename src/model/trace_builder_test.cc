#include "model/trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/diagnostics.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using testing::ElementsAre;
using tests::TraceMaker;

constexpr Device kFirst{DeviceType::kCuda, 0};
constexpr Device kSecond{DeviceType::kCuda, 1};

std::vector<std::uint64_t> sizes_of(const DeviceTrace& device) {
  const auto sizes = device.events.size_bytes.span();
  return {sizes.begin(), sizes.end()};
}

TEST(TraceBuilder, events_of_a_device_keep_their_order) {
  TraceMaker maker;
  maker.on(kSecond).alloc(1, 10).on(kFirst).alloc(1, 20).on(kSecond).alloc(2, 11);
  maker.on(kFirst).alloc(2, 21);
  const Trace trace = maker.finish();
  ASSERT_EQ(trace.devices.size(), 2u);
  EXPECT_EQ(trace.devices[0].device, kFirst);
  EXPECT_THAT(sizes_of(trace.devices[0]), ElementsAre(20, 21));
  EXPECT_THAT(sizes_of(trace.devices[1]), ElementsAre(10, 11));
}

TEST(TraceBuilder, events_name_their_sites) {
  TraceMaker maker;
  Event event;
  event.action = Action::kAlloc;
  event.layer = maker.string("blocks.0");
  maker.on(kSecond).alloc(1, 10).event(event).on(kFirst).alloc(1, 20);
  const Trace trace = maker.finish();
  EXPECT_TRUE(trace.has_layers());
  EXPECT_EQ(trace.site(trace.devices[1], 1).layer, event.layer);
  EXPECT_EQ(trace.site(trace.devices[0], 0).layer, StringId{});
  EXPECT_FALSE(trace.has_categories());
}

// Hindsight is added with the allocs, in order; pairing inserts older lifetimes before them.
TEST(TraceBuilder, hindsight_belongs_to_its_allocation) {
  TraceMaker maker;
  const StringId gradient = maker.string("gradient");
  maker.event(Action::kFree, 64, 1);  // allocated before the recording
  maker.alloc(128, 1).alloc_reported(256, 2, {.category = "gradient"}).alloc(512, 3);
  const Trace trace = maker.finish();
  const DeviceTrace& device = trace.devices.at(0);
  ASSERT_EQ(device.lifetimes.baseline_count, 1u);
  EXPECT_EQ(device.lifetimes.born_at(2), 2u);
  EXPECT_EQ(trace.category(device, 2), gradient);
  for (const std::size_t other : {0u, 1u, 3u}) EXPECT_EQ(trace.category(device, other), StringId{});
}

TEST(TraceBuilder, a_device_can_be_renamed_late) {
  TraceMaker maker;
  maker.on(kFirst).alloc(1, 10);
  EXPECT_TRUE(maker.builder().rename_device(kFirst, kSecond));
  maker.on(kSecond).alloc(2, 20).on(kFirst).alloc(3, 30);
  EXPECT_FALSE(maker.builder().rename_device(kFirst, kSecond));
  const Trace trace = maker.finish();
  EXPECT_THAT(sizes_of(trace.devices.at(0)), ElementsAre(30));
  EXPECT_THAT(sizes_of(trace.devices.at(1)), ElementsAre(10, 20));
}

TEST(TraceBuilder, segments_are_sorted_along_with_their_blocks) {
  TraceMaker maker;
  maker.on(kSecond).segment(0x5000, 512, {TraceMaker::block(0x5000, 512, 1)});
  maker.on(kFirst).segment(0x9000, 512, {TraceMaker::block(0x9000, 512, 2)});
  maker.on(kFirst).segment(0x1000, 1024,
                           {TraceMaker::block(0x1000, 512, 3), TraceMaker::block(0x1200, 512, 4)});
  const Trace trace = maker.finish();
  EXPECT_EQ(trace.devices[0].segment_count, 2u);
  EXPECT_EQ(trace.devices[1].first_segment, 2u);
  std::vector<std::uint64_t> requested;
  for (const Segment& segment : trace.segments) {
    for (const Block& block : trace.blocks.span(segment.first_block, segment.block_count)) {
      requested.push_back(block.requested_size);
    }
  }
  EXPECT_THAT(requested, ElementsAre(3, 4, 2, 1));
  EXPECT_TRUE(trace.has_final_state);
}

TEST(TraceBuilder, history_is_truncated_if_a_round_number_of_events_begins_late) {
  const auto history_of = [](int allocs, bool begins_late) {
    TraceMaker maker;
    if (begins_late) maker.event(Action::kFreeCompleted, 1, 10);
    for (int i = begins_late ? 1 : 0; i < allocs; ++i) {
      maker.alloc(static_cast<std::uint64_t>(i) + 100, 10);
    }
    return maker.finish().devices.at(0).history;
  };
  EXPECT_EQ(history_of(1000, true), History::kTruncated);
  EXPECT_EQ(history_of(1024, true), History::kTruncated);
  EXPECT_EQ(history_of(1001, true), History::kComplete);
  EXPECT_EQ(history_of(1000, false), History::kComplete);
}

// Two allocations at one address, the older of which is freed last: only the file's own pairs show
// that.
TEST(TraceBuilder, uses_the_files_pairs_on_devices_that_have_them) {
  TraceMaker maker;
  for (const Device device : {kFirst, kSecond}) {
    maker.on(device).alloc(64, 10).alloc(64, 20).alloc(128, 30);
    maker.event(Action::kFree, 64, 20).event(Action::kFree, 64, 10);
    Lifetimes& pairs = maker.builder().lifetimes(device);
    for (const std::uint32_t row : {4u, 3u, kNone}) pairs.free_requested.push_back(row);
  }
  maker.builder().pairs_known(kSecond);
  const Trace trace = maker.finish();
  const Lifetimes& said = trace.devices.at(1).lifetimes;
  EXPECT_THAT(said.alloc, ElementsAre(0, 1, 2));
  EXPECT_THAT(said.free_requested, ElementsAre(4, 3, kNone));
  EXPECT_THAT(said.free_completed, ElementsAre(4, 3, kNone));
  EXPECT_FALSE(said.block.present());
  EXPECT_EQ(said.baseline_count, 0u);
  EXPECT_EQ(trace.devices.at(0).lifetimes.baseline_count, 1u);
}

TEST(TraceBuilder, a_file_may_state_that_it_is_truncated) {
  TraceMaker maker;
  maker.alloc(1, 10);
  maker.builder().mark_truncated(kFirst);
  EXPECT_EQ(maker.finish().devices.at(0).history, History::kTruncated);
}

TEST(TraceBuilder, streams_and_pools_are_interned) {
  TraceMaker maker;
  EXPECT_EQ(maker.builder().stream(0), StreamId{0});
  EXPECT_EQ(maker.builder().stream(77), maker.builder().stream(77));
  EXPECT_EQ(maker.builder().pool({0, 1}), maker.builder().pool({0, 1}));
  EXPECT_NE(maker.builder().pool({0, 0}), PoolId{0});  // row 0 is "not recorded"
}

}  // namespace
// A file can name very many streams and pools: a linear search would take quadratic time.
TEST(TraceBuilder, accepts_hundreds_of_thousands_of_streams_and_pools) {
  TraceMaker maker;
  constexpr std::uint64_t kCount = 300'000;
  for (const int round : {1, 2}) {
    SCOPED_TRACE(round);
    for (std::uint64_t i = 1; i <= kCount; ++i) {
      ASSERT_EQ(maker.builder().stream(i << 32).index(), i);
      ASSERT_EQ(maker.builder().pool({i, i}).index(), i);
    }
  }
  EXPECT_GT(maker.builder().memory_bytes(), kCount * 2 * sizeof(std::uint64_t));
}

void add_alloc(TraceBuilder& builder, Device device, std::uint64_t address) {
  Event event;
  event.action = Action::kAlloc;
  event.address = address;
  event.size_bytes = 64;
  builder.add_alloc(device, event, {});
}

TEST(TraceBuilder, dropping_steps_leaves_the_other_marks_in_place) {
  base::Diagnostics diagnostics;
  TraceBuilder builder(diagnostics);
  const Device cpu{DeviceType::kCpu, -1};
  builder.add_mark(Mark{MarkKind::kStep, kNoTime, 1, {}});
  add_alloc(builder, cpu, 64);
  builder.add_mark(Mark{MarkKind::kBackwardBegin, kNoTime, 0, {}});
  builder.drop_steps();
  add_alloc(builder, cpu, 128);
  builder.add_mark(Mark{MarkKind::kStep, kNoTime, 1, {}});
  base::Progress progress;
  const auto trace = builder.finish("test", progress);
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->marks.size(), 2u);
  EXPECT_EQ(trace->marks[0].kind, MarkKind::kBackwardBegin);
  EXPECT_EQ(trace->marks[1].kind, MarkKind::kStep);
  const auto& events = trace->devices[0].mark_events;
  EXPECT_EQ(std::vector(events.begin(), events.end()), (std::vector<std::uint32_t>{1, 2}));
}

TEST(TraceBuilder, marks_are_between_the_events_of_each_device) {
  base::Diagnostics diagnostics;
  TraceBuilder builder(diagnostics);
  const Device cpu{DeviceType::kCpu, -1};
  const Device cuda{DeviceType::kCuda, 0};
  builder.add_mark(Mark{MarkKind::kStep, kNoTime, 0, {}});
  add_alloc(builder, cpu, 64);
  add_alloc(builder, cuda, 64);
  builder.add_mark(Mark{MarkKind::kStep, kNoTime, 1, {}});
  add_alloc(builder, cpu, 128);
  add_alloc(builder, cpu, 192);
  builder.add_mark(Mark{MarkKind::kStep, kNoTime, 2, {}});
  base::Progress progress;
  const auto trace = builder.finish("test", progress);
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->devices.size(), 2u);
  const auto& on_cuda = trace->devices[0].mark_events;
  const auto& on_cpu = trace->devices[1].mark_events;
  EXPECT_EQ(std::vector(on_cuda.begin(), on_cuda.end()), (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(std::vector(on_cpu.begin(), on_cpu.end()), (std::vector<std::uint32_t>{0, 1, 3}));
}

}  // namespace plimsoll::model
