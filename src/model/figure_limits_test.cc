#include "model/figure_limits.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/diagnostics.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using testing::HasSubstr;
using tests::TraceMaker;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(FigureLimits, impossible_sizes_are_lowered_and_the_first_is_named) {
  TraceMaker maker;
  maker.alloc(4096, kMostBytes).alloc(8192, kMost).alloc(12288, kMostBytes + 1);
  maker.segment(4096, kMost, {TraceMaker::block(4096, kMost, kMost)});
  const Trace trace = maker.finish();
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_EQ(trace.devices.at(0).events.size_bytes[row], kMostBytes);
  EXPECT_EQ(trace.segments[0].total_size, kMostBytes);
  EXPECT_EQ(trace.blocks[0].size, kMostBytes);
  EXPECT_EQ(trace.blocks[0].requested_size, kMostBytes);
  EXPECT_EQ(maker.diagnostics().count(kImplausibleSize), 5u);
  EXPECT_EQ(maker.diagnostics().all().front().first_example,
            "cuda:0 event 1: 18446744073709551615 bytes");
}

TEST(FigureLimits, an_impossible_request_is_not_damage) {
  constexpr std::uint64_t kMistake = 1'000'000'000'000'000'000;  // as from a wrong shape
  TraceMaker maker;
  maker.event(Action::kOom, 1 << 30, kMistake).event(Action::kOom, kMost, kMost);
  const Trace trace = maker.finish();
  EXPECT_EQ(trace.devices.at(0).events.size_bytes[0], kMistake);
  EXPECT_EQ(trace.devices.at(0).events.size_bytes[1], kMostRequestBytes);
  EXPECT_EQ(trace.devices.at(0).events.address[1], kMostBytes);
  EXPECT_EQ(maker.diagnostics().count(kImplausibleSize), 2u);
}

TEST(FigureLimits, differences_of_times_fit) {
  TraceMaker maker;
  maker.at(std::numeric_limits<std::int64_t>::max() - 1'000).alloc(4096, 1);  // what an event adds
  maker.at(std::numeric_limits<std::int64_t>::min() + 1).alloc(8192, 1);
  maker.annotation("step", kNoTime, std::numeric_limits<std::int64_t>::max());
  const Trace trace = maker.finish();
  std::int64_t difference = 0;
  EXPECT_FALSE(__builtin_sub_overflow(trace.devices.at(0).events.time_ns[0],
                                      trace.devices.at(0).events.time_ns[1], &difference));
  EXPECT_EQ(trace.annotations[0].begin_ns, kNoTime);
  EXPECT_EQ(trace.annotations[0].end_ns, kLatestNs);
  EXPECT_EQ(maker.diagnostics().count(kImplausibleTime), 3u);
}

TEST(FigureLimits, padding_counts_too) {
  TraceMaker maker;
  Event event;
  event.action = Action::kAlloc;
  event.padding_bytes = kMost;
  maker.event(event);
  EXPECT_EQ(maker.finish().devices.at(0).events.padding_bytes[0], kMostBytes);
}

TEST(FigureLimits, a_file_whose_sizes_overflow_the_sum_is_rejected) {
  base::Diagnostics diagnostics;
  TraceBuilder builder(diagnostics);
  const std::uint64_t count = kMostTotalBytes / kMostBytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    Event event;
    event.action = Action::kAlloc;
    event.address = i;
    event.size_bytes = kMost - i;
    builder.add_event({}, event);
  }
  base::Progress progress;
  const auto trace = builder.finish("made_by_hand", progress);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(trace.error().message, HasSubstr("add up to more than 2 EiB"));
  EXPECT_THAT(trace.error().message, HasSubstr("event 0: 18446744073709551615 bytes"));
}

}  // namespace
}  // namespace plimsoll::model
