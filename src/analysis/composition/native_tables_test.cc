// The tables of native recordings: layers, categories, phases, steps, regions, tensors.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/composition/composition.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::composition {
namespace {

using model::LifetimeFlags;
using model::Phase;
using report::GroupRow;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::TraceMaker;

report::Tables run_native(const model::Trace& trace,
                          TimePoint::Kind point = TimePoint::Kind::kEnd) {
  Options options;
  options.point.kind = point;
  return tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()), options).tables;
}

std::vector<std::string> native_keys(const std::vector<GroupRow>& rows) {
  std::vector<std::string> keys;
  for (const GroupRow& row : rows) keys.push_back(row.key + " = " + std::to_string(row.bytes));
  return keys;
}

std::uint64_t native_bytes(const std::vector<GroupRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const GroupRow& row) { return sum + row.bytes; });
}

// Two steps of a model with one layer, whose weight existed before.
model::Trace two_steps() {
  TraceMaker maker;
  const auto weight = maker.tensor("Net.fc.weight", "float32", "[3, 2]");
  const auto output = maker.tensor("", "bfloat16", "[8, 3]");
  maker
      .alloc_reported(1, 1000,
                      {.category = "parameter", .flags = LifetimeFlags::kAdopted, .tensor = weight})
      .alloc_reported(2, 64, {.category = "unknown", .flags = LifetimeFlags::kAdopted})
      .begin_region("train")
      .alloc_reported(3, 200,
                      {.layer = "Net.fc",
                       .category = "activation",
                       .phase = Phase::kForward,
                       .op = "aten::linear",
                       .tensor = output})
      .step(0)
      .begin_region("inner")
      .alloc_reported(4, 30,
                      {.layer = "Net.act",
                       .category = "activation",
                       .phase = Phase::kForward,
                       .op = "aten::relu"})
      .end_region("inner")
      .alloc_reported(5, 4,
                      {.layer = "Net.fc",
                       .category = "gradient",
                       .phase = Phase::kBackward,
                       .op = "AddmmBackward0"})
      .end_region("train")
      .step(1)
      .alloc_reported(6, 1, {.phase = Phase::kOptimizer})
      .free(9, 5000);
  return maker.finish();
}

TEST(NativeTables, each_table_covers_all_live_bytes) {
  const auto tables = run_native(two_steps());
  EXPECT_EQ(tables.points.at(0).live_bytes, 1299u);
  EXPECT_THAT(native_keys(tables.by_category),
              ElementsAre("parameter = 1000", "activation = 230", "unknown = 65", "gradient = 4"));
  EXPECT_THAT(native_keys(tables.by_layer),
              ElementsAre("Net.fc = 1204", "[no layer] = 65", "Net.act = 30"));
  EXPECT_THAT(native_keys(tables.by_phase),
              ElementsAre("other = 1064", "forward = 230", "backward = 4", "optimizer = 1"));
  EXPECT_THAT(native_keys(tables.by_step),
              ElementsAre("step 0 and before it = 1264", "step 1 = 34", "after step 1 = 1"));
  EXPECT_THAT(native_keys(tables.by_dtype),
              ElementsAre("float32 = 1000", "bfloat16 = 200", "[unknown] = 99"));
  EXPECT_THAT(native_keys(tables.by_tensor),
              ElementsAre("Net.fc.weight float32 [3, 2] = 1000", "bfloat16 [8, 3] = 200",
                          "[unknown] = 99"));
  EXPECT_THAT(native_keys(tables.by_region),
              ElementsAre("[no region] = 1065", "train = 204", "inner = 30"));
  EXPECT_THAT(native_keys(tables.by_operator),
              ElementsAre("[unknown] = 1065", "aten::linear = 200", "aten::relu = 30",
                          "AddmmBackward0 = 4"));
  EXPECT_THAT(native_keys(tables.by_line),
              ElementsAre("[allocated before recording] = 1064", "[recorded without lines] = 235"));
}

TEST(NativeTables, unknown_memory_has_a_reason) {
  const auto tables = run_native(two_steps(), TimePoint::Kind::kStart);
  EXPECT_THAT(native_keys(tables.by_category), ElementsAre("unknown = 5064", "parameter = 1000"));
  EXPECT_THAT(native_keys(tables.unknown_by_reason),
              ElementsAre("allocated before recording, and not identified = 5000",
                          "allocated before recording, and owned by no module or optimizer = 64"));
  EXPECT_THAT(native_keys(run_native(two_steps()).unknown_by_reason),
              ElementsAre("allocated before recording, and owned by no module or optimizer = 64",
                          "the recording does not identify it = 1"));
}

TEST(NativeTables, the_peak_has_the_programs_activity) {
  TraceMaker maker;
  maker.alloc(1, 10).step(4);
  maker.alloc_reported(2, 10, {.layer = "Net.fc", .phase = Phase::kForward, .op = "aten::mm"});
  maker.free(1, 10).step(5);
  const auto point = run_native(maker.finish(), TimePoint::Kind::kPeak).points.at(0);
  EXPECT_EQ(point.step, 5u);
  EXPECT_EQ(point.phase, "forward");
  EXPECT_EQ(point.layer, "Net.fc");
  EXPECT_EQ(point.op, "aten::mm");
}

TEST(NativeTables, a_file_without_these_data_has_no_rows) {
  TraceMaker maker;
  maker.alloc(1, 10);
  const auto tables = run_native(maker.finish());
  for (const auto* table :
       {&tables.by_category, &tables.by_layer, &tables.by_phase, &tables.by_step, &tables.by_dtype,
        &tables.by_region, &tables.by_tensor, &tables.unknown_by_reason}) {
    EXPECT_THAT(native_keys(*table), IsEmpty());
  }
  EXPECT_FALSE(tables.points.at(0).step.has_value());
}

TEST(NativeTables, rows_sum_to_the_live_bytes_at_any_point) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const auto trace =
        tests::random_trace({.seed = seed,
                             .events = 200,
                             .reporting = tests::RandomTraceOptions::Reporting::kEverything});
    for (const std::uint64_t event : {0u, 50u, 150u, 199u}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " event " + std::to_string(event));
      Options options;
      options.point = {.kind = TimePoint::Kind::kEvent, .event = event};
      options.top = seed % 2 == 0 ? 3 : 1000;
      const auto tables =
          tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()), options).tables;
      const std::uint64_t live = tables.points.at(0).live_bytes;
      for (const auto* table : {&tables.by_category, &tables.by_layer, &tables.by_phase,
                                &tables.by_dtype, &tables.by_tensor}) {
        EXPECT_EQ(native_bytes(*table), live);
      }
      for (const auto* table : {&tables.by_step, &tables.by_region}) {
        EXPECT_EQ(table->empty() ? live : native_bytes(*table), live);
      }
      if (options.top < 1000) continue;
      std::uint64_t unknown = 0;
      for (const GroupRow& row : tables.by_category) {
        if (row.key == "unknown") unknown = row.bytes;
      }
      EXPECT_EQ(native_bytes(tables.unknown_by_reason), unknown);
    }
  }
}

}  // namespace
}  // namespace plimsoll::analysis::composition
