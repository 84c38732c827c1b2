#include "exporters/speedscope/memory_over_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/trace_maker.h"

namespace plimsoll::exporters::speedscope {
namespace {

using testing::ElementsAre;
using tests::TraceMaker;

constexpr std::uint64_t kMiB = 1 << 20;

report::LayerRow layer(std::string path, std::uint64_t peak_bytes) {
  report::LayerRow row;
  row.layer = std::move(path);
  row.inclusive.peak_bytes = peak_bytes;
  return row;
}

MemoryOverTime usage_of(const model::Trace& trace, const std::vector<report::LayerRow>& layers,
                        std::size_t most = 1'000) {
  report::Report report;
  report.tables.layers = layers;
  const model::UserLines lines(trace);
  return memory_over_time({trace, report, lines}, trace.devices.at(0), most);
}

// Each event takes 1,000 ns.
TEST(MemoryOverTime, parts_are_as_high_as_their_bytes) {
  TraceMaker maker;
  maker.alloc_reported(1, 16 * kMiB, {.layer = "Net.a"});
  maker.alloc_reported(2, 8 * kMiB, {.layer = "Net.b"});
  maker.alloc(3, 8 * kMiB).free_immediately(1, 16 * kMiB).free_immediately(2, 8 * kMiB);
  const MemoryOverTime usage =
      usage_of(maker.finish(),
               {layer("Net", 24 * kMiB), layer("Net.a", 16 * kMiB), layer("Net.b", 8 * kMiB)});
  EXPECT_EQ(usage.step_bytes, kMiB / 4);
  EXPECT_THAT(usage.parts, ElementsAre("Net", "Net.a", "Net.b", "[no layer]"));
  ASSERT_EQ(usage.spans.size(), 4u) << "what follows the last event has no length";
  EXPECT_THAT(usage.spans[0].heights, ElementsAre(0, 64, 0, 0));
  EXPECT_THAT(usage.spans[1].heights, ElementsAre(0, 64, 32, 0));
  EXPECT_THAT(usage.spans[2].heights, ElementsAre(0, 64, 32, 32));
  EXPECT_THAT(usage.spans[3].heights, ElementsAre(0, 0, 32, 32));
  for (const UsageSpan& span : usage.spans) EXPECT_EQ(span.duration_ns, 1'000u);
}

TEST(MemoryOverTime, parts_that_round_to_nothing_do_not_change_the_total_height) {
  TraceMaker maker;
  std::vector<report::LayerRow> layers = {layer("Net", 32 * kMiB)};
  for (std::uint64_t at = 0; at < 8; ++at) {
    const std::string path = "Net." + std::to_string(at);
    layers.push_back(layer(path, kMiB / 16));
    maker.alloc_reported(at, kMiB / 16, {.layer = path});
  }
  maker.alloc(100, 31 * kMiB).alloc(101, 0);
  const MemoryOverTime usage = usage_of(maker.finish(), layers);
  const auto& heights = usage.spans.back().heights;
  EXPECT_EQ(std::accumulate(heights.begin(), heights.end(), 0u), 126u);
}

TEST(MemoryOverTime, a_leak_of_some_percent_rises_step_by_step) {
  TraceMaker maker;
  maker.alloc(1, 200 * kMiB);
  for (std::uint64_t at = 0; at < 6; ++at) maker.alloc(10 + at, kMiB);
  maker.alloc(100, 0);
  const MemoryOverTime usage = usage_of(maker.finish(), {});
  EXPECT_LE(usage.step_bytes, 2 * kMiB);
  EXPECT_EQ(usage.spans.back().heights.back() - usage.spans.front().heights.back(), 3u);
}

TEST(MemoryOverTime, a_long_recording_keeps_its_peaks) {
  TraceMaker maker;
  for (std::uint64_t at = 0; at < 500; ++at) {
    const std::uint64_t size = at == 333 ? 64 * kMiB : kMiB;
    maker.alloc(at, size).free_immediately(at, size);
  }
  const MemoryOverTime usage = usage_of(maker.finish(), {}, 20);
  EXPECT_LT(usage.spans.size(), 40u);
  EXPECT_EQ(std::ranges::max(usage.spans, {}, &UsageSpan::bytes).bytes, 64 * kMiB);
  std::uint64_t whole_ns = 0;
  for (const UsageSpan& span : usage.spans) whole_ns += span.duration_ns;
  EXPECT_EQ(whole_ns, 999'000u);
}

TEST(MemoryOverTime, a_model_with_many_layers_is_split_at_the_largest) {
  std::vector<report::LayerRow> layers = {layer("Net", 100), layer("Net.large", 90),
                                          layer("Net.small", 10)};
  for (int at = 0; at < 40; ++at) layers.push_back(layer("Net.large." + std::to_string(at), 2));
  for (int at = 0; at < 3; ++at) layers.push_back(layer("Net.small." + std::to_string(at), 2));
  TraceMaker maker;
  maker.alloc_reported(1, 2, {.layer = "Net.large.7"}).alloc(2, 2);
  const MemoryOverTime usage = usage_of(maker.finish(), layers);
  EXPECT_THAT(usage.parts, ElementsAre("Net", "Net.large", "Net.small", "Net.small.0",
                                       "Net.small.1", "Net.small.2", "[no layer]"));
  EXPECT_GT(usage.spans.at(0).heights.at(1), 0u) << "what is inside belongs to the part around it";
}

TEST(MemoryOverTime, without_times_there_is_no_axis) {
  TraceMaker maker;
  maker.without_times().alloc(1, 1).alloc(2, 1);
  EXPECT_TRUE(usage_of(maker.finish(), {}).spans.empty());
}

}  // namespace
}  // namespace plimsoll::exporters::speedscope
