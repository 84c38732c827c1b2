#include "exporters/timeline_json/timeline_json_exporter.h"

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"
#include "tests/support/json_text.h"

namespace plimsoll::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(TimelineJson, ExporterSuite,
                         testing::Values(ExporterCase{exporters::timeline_json::make, json_flaw}));

TEST(TimelineJsonExporter, columns_have_one_value_per_point) {
  TraceMaker maker;
  const model::Trace trace = maker.alloc(0x1000, 10).alloc(0x2000, 20).alloc(0x3000, 30).finish();
  const auto document = parsed_json(exported(*exporters::timeline_json::make(), trace));
  EXPECT_EQ(document["series"].size(), report::kSeriesCount);
  const auto& device = document["devices"][0];
  EXPECT_EQ(device["device_type"].text, "cuda");
  const auto& points = device["points"];
  EXPECT_EQ(points["first_event"][2].integer(), 2);
  EXPECT_EQ(points["event_count"][2].integer(), 1);
  EXPECT_EQ(points["time_ns"][2].integer(), 1'002'000);
  for (const auto& series : document["series"].items) {
    EXPECT_EQ(points[series.text]["min_bytes"].size(), 3u);
    EXPECT_EQ(points[series.text]["max_bytes"].size(), 3u);
    EXPECT_EQ(points[series.text]["last_bytes"][2].integer(), 2);
    EXPECT_TRUE(device["baseline_bytes"].has(series.text));
  }
}

TEST(TimelineJsonExporter, unknown_times_are_null) {
  TraceMaker maker;
  const model::Trace trace = maker.without_times().alloc(0x1000, 10).finish();
  const auto document = parsed_json(exported(*exporters::timeline_json::make(), trace));
  EXPECT_TRUE(document["devices"][0]["points"]["time_ns"][0].is_null());
}

}  // namespace
}  // namespace plimsoll::tests
