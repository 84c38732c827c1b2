#include "analysis/saved/saved.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/layers.h"
#include "model/live_set.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::saved {
namespace {

using model::LifetimeFlags;
using model::Phase;
using report::GroupRow;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::Reported;
using tests::TraceMaker;

report::Tables run(const model::Trace& trace) {
  Options options;
  options.top = 1000;
  return tests::run_passes(trace, tests::passes(make()), options).tables;
}

std::vector<std::string> keys(const std::vector<GroupRow>& rows) {
  std::vector<std::string> keys;
  for (const GroupRow& row : rows) keys.push_back(row.key + " = " + std::to_string(row.bytes));
  return keys;
}

Reported saved(std::string_view layer, std::string_view op) {
  return {.layer = layer,
          .category = "activation",
          .phase = Phase::kForward,
          .op = op,
          .flags = LifetimeFlags::kSavedForBackward};
}

TEST(Saved, the_backward_that_begins_with_most_is_reported) {
  TraceMaker maker;
  maker.alloc(1, 5000)
      .alloc_reported(2, 100, saved("Net.a", "aten::conv2d"))
      .begin_backward()
      .free(2, 100)
      .step(1)
      .alloc_reported(3, 100, saved("Net.a", "aten::conv2d"))
      .alloc_reported(4, 50, saved("Net.b", "aten::relu"))
      .alloc_reported(5, 30, saved("Net.b", ""))
      .begin_backward()
      .alloc(6, 9)
      .free(3, 100)
      .free(4, 50)
      .step(2)
      .begin_backward();
  const auto tables = run(maker.finish());
  ASSERT_EQ(tables.saved.size(), 1u);
  EXPECT_EQ(tables.saved[0].event, 6u);
  EXPECT_EQ(tables.saved[0].step, 2u);
  EXPECT_EQ(tables.saved[0].bytes, 180u);
  EXPECT_EQ(tables.saved[0].count, 3u);
  EXPECT_EQ(tables.saved[0].live_bytes, 5180u);
  EXPECT_EQ(tables.saved[0].backwards, 3u);
  EXPECT_THAT(keys(tables.saved_by_operator),
              ElementsAre("aten::conv2d = 100", "aten::relu = 50", "[outside all operators] = 30"));
  EXPECT_THAT(keys(tables.saved_by_layer), ElementsAre("Net.a = 100", "Net.b = 80"));
  EXPECT_DOUBLE_EQ(tables.saved_by_layer[0].share, 100.0 / 180.0);
}

TEST(Saved, without_marks_of_backward_nothing_is_reported) {
  TraceMaker maker;
  maker.alloc_reported(2, 100, saved("Net.a", "aten::conv2d"));
  const auto tables = run(maker.finish());
  EXPECT_TRUE(tables.saved.empty());
  EXPECT_THAT(keys(tables.saved_by_operator), IsEmpty());
}

TEST(Saved, a_backward_that_keeps_nothing_has_a_row_of_zero) {
  TraceMaker maker;
  maker.begin_backward().alloc(1, 10);
  const auto tables = run(maker.finish());
  ASSERT_EQ(tables.saved.size(), 1u);
  EXPECT_FALSE(tables.saved[0].event.has_value());
  EXPECT_EQ(tables.saved[0].bytes, 0u);
}

TEST(Saved, random_traces_agree_with_the_definition) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto trace =
        tests::random_trace({.seed = seed,
                             .events = 300,
                             .reporting = tests::RandomTraceOptions::Reporting::kEverything});
    const auto& device = trace.devices.at(0);
    std::uint64_t most = 0;
    std::map<std::string, std::uint64_t> by_layer;
    for (std::size_t mark = 0; mark < trace.marks.size(); ++mark) {
      if (trace.marks[mark].kind != model::MarkKind::kBackwardBegin) continue;
      std::uint64_t bytes = 0;
      std::map<std::string, std::uint64_t> layers_now;
      model::Layers layers(trace);
      const auto point = std::int64_t{device.mark_events[mark]} - 1;
      for (const auto row : live_set(device, model::Liveness::kActive, point)) {
        const std::uint32_t born = device.lifetimes.alloc[row];
        if (born == model::kNone) continue;
        if (!has(device.lifetimes.flags[row], LifetimeFlags::kSavedForBackward)) continue;
        bytes += trace.devices.at(0).events.size_bytes[born];
        const std::string& path = layers.path(layers.of(device, row));
        layers_now[path.empty() ? "[no layer]" : path] +=
            trace.devices.at(0).events.size_bytes[born];
      }
      if (bytes > most) most = bytes, by_layer = layers_now;
    }
    const auto tables = run(trace);
    EXPECT_EQ(tables.saved.at(0).bytes, most);
    std::map<std::string, std::uint64_t> reported;
    std::uint64_t by_operator = 0;
    for (const auto& row : tables.saved_by_layer) reported[row.key] = row.bytes;
    for (const auto& row : tables.saved_by_operator) by_operator += row.bytes;
    EXPECT_EQ(reported, by_layer);
    EXPECT_EQ(by_operator, most);
  }
}

}  // namespace
}  // namespace plimsoll::analysis::saved
