#include "analysis/layers/layer_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "analysis/layer_timeline.h"
#include "analysis/layers/layers.h"
#include "tests/support/native_passes.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::layers {
namespace {

using model::Action;
using model::LifetimeFlags;
using model::Phase;
using report::LayerCalls;
using testing::ElementsAre;
using tests::TraceMaker;

std::map<std::string, LayerCalls> calls_of(TraceMaker& maker) {
  const model::Trace trace = maker.finish();
  const report::Tables tables =
      tests::run_passes(trace, tests::passes(tests::timeline_pass(), tests::composition_pass(),
                                             tests::saved_pass(), make()))
          .tables;
  std::map<std::string, LayerCalls> calls;
  for (const report::LayerRow& row : tables.layers) calls[row.layer] = row.calls.value();
  return calls;
}

TraceMaker& forward(TraceMaker& maker, std::uint64_t address, std::uint64_t size_bytes,
                    std::string_view layer) {
  return maker.alloc_reported(address, size_bytes, {.layer = layer, .phase = Phase::kForward});
}

TEST(LayerCalls, the_end_of_an_unknown_layer_adds_no_call) {
  TraceMaker maker;
  maker.exit_layer("Lost").enter_layer("Net").exit_layer("Net.lost");
  forward(maker, 1, 100, "Net").exit_layer("Net").exit_layer("Net");
  auto calls = calls_of(maker);
  EXPECT_FALSE(calls.contains("Lost"));
  EXPECT_FALSE(calls.contains("Net.lost"));
  EXPECT_EQ(calls["Net"].calls, 1u);
}

// Each event takes 1,000 ns; marks have the time of the next event.
TEST(LayerCalls, a_layer_includes_the_layers_inside_it) {
  TraceMaker maker;
  maker.enter_layer("Net").enter_layer("Net.fc");
  forward(maker, 1, 100, "Net.fc");
  forward(maker, 2, 50, "Net.fc").free_immediately(2, 50).exit_layer("Net.fc");
  forward(maker, 3, 10, "Net").exit_layer("Net");
  forward(maker, 4, 5, "Other");
  auto calls = calls_of(maker);
  EXPECT_EQ(calls["Net.fc"].calls, 1u);
  EXPECT_EQ(calls["Net.fc"].allocations, 2u);
  EXPECT_EQ(calls["Net.fc"].frees, 1u);
  EXPECT_EQ(calls["Net.fc"].duration_ns, 3'000u);
  EXPECT_EQ(calls["Net"].calls, 1u);
  EXPECT_EQ(calls["Net"].allocations, 3u);
  EXPECT_EQ(calls["Net"].duration_ns, 4'000u);
  EXPECT_EQ(calls["Other"].calls, 0u);
  EXPECT_EQ(calls["Other"].allocations, 1u);
  EXPECT_EQ(calls["Other"].duration_ns, 0u);
}

TEST(LayerCalls, recursion_and_parents_that_are_never_called_count_time_once) {
  TraceMaker maker;
  maker.enter_layer("Net.blocks.0").alloc(1, 1).enter_layer("Net.blocks.0").alloc(2, 1);
  maker.exit_layer("Net.blocks.0").alloc(3, 1).exit_layer("Net.blocks.0");
  maker.alloc(4, 1).enter_layer("Net.blocks.1").alloc(5, 1).exit_layer("Net.blocks.1");
  auto calls = calls_of(maker);
  EXPECT_EQ(calls["Net.blocks.0"].calls, 2u);
  EXPECT_EQ(calls["Net.blocks.0"].duration_ns, 3'000u);
  EXPECT_EQ(calls["Net.blocks"].calls, 0u);
  EXPECT_EQ(calls["Net.blocks"].duration_ns, 4'000u) << "a list of layers has no forward";
}

TEST(LayerCalls, ends_without_a_beginning_and_calls_that_do_not_end_are_bounded) {
  TraceMaker maker;
  maker.exit_layer("Net").alloc(1, 1).enter_layer("Net").alloc(2, 1).alloc(3, 1);
  auto calls = calls_of(maker);
  EXPECT_EQ(calls["Net"].calls, 1u);
  EXPECT_EQ(calls["Net"].duration_ns, 1'000u) << "until the last event";
}

TEST(LayerCalls, fragmentation_is_the_mean_over_the_rows_of_the_layer) {
  TraceMaker maker;
  maker.event(Action::kSegmentAlloc, 0x1000, 1000).enter_layer("Net.a");  // 1.0
  forward(maker, 0x1000, 500, "Net.a").exit_layer("Net.a");               // 0.5, 0.5
  maker.event(Action::kSegmentAlloc, 0x9000, 1000).enter_layer("Net.b");  // 0.75
  maker.exit_layer("Net.b");                                              // 0.75
  auto calls = calls_of(maker);
  EXPECT_DOUBLE_EQ(calls["Net.a"].fragmentation_ratio, 2.0 / 3);
  EXPECT_EQ(calls["Net.a"].peak_reserved_bytes, 1000u);
  EXPECT_DOUBLE_EQ(calls["Net.b"].fragmentation_ratio, 0.75);
  EXPECT_EQ(calls["Net.b"].peak_reserved_bytes, 2000u);
  EXPECT_EQ(calls["Net"].peak_reserved_bytes, 2000u);
}

TEST(LayerCalls, without_segments_reserved_is_allocated) {
  TraceMaker maker;
  maker.enter_layer("Net");
  forward(maker, 1, 100, "Net").exit_layer("Net");
  auto calls = calls_of(maker);
  EXPECT_EQ(calls["Net"].peak_reserved_bytes, 100u);
  EXPECT_EQ(calls["Net"].fragmentation_ratio, 0.0);
}

TEST(LayerCalls, are_absent_if_the_recording_does_not_mark_them) {
  TraceMaker maker;
  forward(maker, 1, 100, "Net");
  const model::Trace trace = maker.finish();
  const auto tables =
      tests::run_passes(trace, tests::passes(tests::timeline_pass(), tests::composition_pass(),
                                             tests::saved_pass(), make()))
          .tables;
  ASSERT_FALSE(tables.layers.empty());
  EXPECT_FALSE(tables.layers[0].calls.has_value());
}

// ---- the rows ---------------------------------------------------------------------------------

std::vector<std::string> rows_of(TraceMaker& maker) {
  constexpr std::array kNames{"alloc", "free", "snapshot", "enter", "exit"};
  const model::Trace trace = maker.finish();
  std::vector<std::string> rows;
  for_each_happening(trace, trace.devices.at(0), [&](const TimelineRow& row) {
    rows.push_back(std::string(kNames[static_cast<std::size_t>(row.what)]) + " " +
                   std::to_string(row.size_bytes) + " " + std::to_string(row.allocated_bytes) +
                   "/" + std::to_string(row.reserved_bytes));
  });
  return rows;
}

TEST(LayerTimeline, memory_that_was_live_before_is_a_snapshot) {
  TraceMaker maker;
  const auto older = [&](std::uint64_t address, std::uint64_t size_bytes) {
    maker.alloc_reported(address, size_bytes, {.flags = LifetimeFlags::kAdopted});
  };
  older(1, 100);
  older(2, 50);
  maker.enter_layer("Net").alloc(3, 7);
  older(4, 1);
  maker.free_immediately(1, 100).exit_layer("Net");
  EXPECT_THAT(rows_of(maker), ElementsAre("snapshot 150 150/150", "enter 0 150/150",
                                          "alloc 7 157/157", "snapshot 1 158/158", "free 100 58/58",
                                          "exit 0 58/58", "snapshot 0 58/58"));
}

TEST(LayerTimeline, a_snapshot_files_totals_end_at_its_final_state) {
  TraceMaker maker;
  maker.free(0x1000, 100).alloc(0x1100, 28);
  maker.segment(0x1000, 4096, {TraceMaker::block(0x1100, 512, 28)});
  EXPECT_THAT(rows_of(maker), ElementsAre("snapshot 100 100/4096", "free 100 0/4096",
                                          "alloc 28 28/4096", "snapshot 0 28/4096"));
}

TEST(LayerTimeline, segments_change_reserved_bytes_from_the_next_row_on) {
  TraceMaker maker;
  maker.event(Action::kSegmentAlloc, 0x1000, 4096).alloc(0x1000, 10).free_immediately(0x1000, 10);
  maker.event(Action::kSegmentFree, 0x1000, 4096);
  EXPECT_THAT(rows_of(maker), ElementsAre("snapshot 0 0/4096", "alloc 10 10/4096", "free 10 0/4096",
                                          "snapshot 0 0/0"));
}

}  // namespace
}  // namespace plimsoll::analysis::layers
