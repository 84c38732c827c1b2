#include "exporters/json/json_exporter.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "exporters/json/report_schema.h"
#include "tests/conformance/exporter_suite.h"
#include "tests/support/json_text.h"

namespace plimsoll::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Json, ExporterSuite,
                         testing::Values(ExporterCase{exporters::json::make, json_flaw}));

TEST(JsonExporter, the_whole_report_is_written) {
  TraceMaker maker;
  const model::Trace trace = maker.alloc(0x1000, 100).finish();
  const auto document = parsed_json(exported(*exporters::json::make(), trace));
  EXPECT_EQ(document["schema_version"].text, PLIMSOLL_REPORT_SCHEMA_VERSION);
  EXPECT_EQ(document["source"]["path"].text, "made.pickle");
  EXPECT_EQ(document["devices"].size(), 1u);
  EXPECT_TRUE(document["devices"][0]["reserved"]["peak_event"].is_null());
  EXPECT_EQ(document["tables"]["points_in_time"][0]["event"].integer(), 0);
  EXPECT_TRUE(document["findings"].is_array());
}

// The file must match the field lists; regenerate it with PLIMSOLL_BLESS=1.
TEST(ReportSchema, the_page_in_docs_is_up_to_date) {
  TextOutput schema;
  ASSERT_TRUE(exporters::json::write_report_schema(schema).ok());
  const std::string path = PLIMSOLL_SOURCE_DIR "/docs/report.schema.json";
  if (std::getenv("PLIMSOLL_BLESS") != nullptr) std::ofstream(path) << schema.text;
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(schema.text, page.str())
      << "the report has changed: run this test with PLIMSOLL_BLESS=1, and look at the difference";
}

TEST(ReportSchema, unknown_values_may_be_null_and_others_may_not) {
  TextOutput schema;
  ASSERT_TRUE(exporters::json::write_report_schema(schema).ok());
  const auto document = parsed_json(schema.text);
  EXPECT_EQ(document["$ref"].text, "#/$defs/Report");
  const auto& totals = document["$defs"]["SeriesTotals"]["properties"];
  EXPECT_EQ(totals["peak_bytes"]["type"].text, "integer");
  EXPECT_EQ(totals["peak_event"]["type"][1].text, "null");
  EXPECT_EQ(totals["peak_event"]["minimum"].integer(), 0);
  const auto& devices = document["$defs"]["Report"]["properties"]["devices"];
  EXPECT_EQ(devices["items"]["$ref"].text, "#/$defs/DeviceReport");
  EXPECT_NE(devices["description"].text, "");
}

}  // namespace
}  // namespace plimsoll::tests
