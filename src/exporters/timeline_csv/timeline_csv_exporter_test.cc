#include "exporters/timeline_csv/timeline_csv_exporter.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"

namespace plimsoll::tests {
namespace {

// Returns a line whose number of fields differs from the header's. No field here contains quotes.
std::string csv_flaw(std::string_view text) {
  constexpr std::ptrdiff_t kCommas = 5 + 3 * static_cast<std::ptrdiff_t>(report::kSeriesCount) - 1;
  if (text.empty()) return "no header";
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return "a line does not end";
    const std::string_view line = text.substr(0, end);
    if (std::ranges::count(line, ',') != kCommas) return "fields: " + std::string(line);
    text.remove_prefix(end + 2);
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(TimelineCsv, ExporterSuite,
                         testing::Values(ExporterCase{exporters::timeline_csv::make, csv_flaw}));

TEST(TimelineCsvExporter, there_is_one_line_per_point) {
  TraceMaker maker;
  const model::Trace trace = maker.alloc(0x1000, 10).alloc(0x2000, 20).finish();
  EXPECT_EQ(exported(*exporters::timeline_csv::make(), trace),
            "device,device_type,first_event,event_count,time_ns,"
            "requested_allocated_min_bytes,requested_allocated_max_bytes,"
            "requested_allocated_last_bytes,requested_active_min_bytes,requested_active_max_bytes,"
            "requested_active_last_bytes,allocated_rounded_min_bytes,allocated_rounded_max_bytes,"
            "allocated_rounded_last_bytes,reserved_min_bytes,reserved_max_bytes,"
            "reserved_last_bytes\r\n"
            "0,cuda,0,1,1000000,0,0,0,0,0,0,0,0,0,0,0,0\r\n"
            "0,cuda,1,1,1001000,1,1,1,1,1,1,1,1,1,1,1,1\r\n");
}

TEST(TimelineCsvExporter, text_that_would_break_the_table_is_quoted) {
  TraceMaker maker;
  const model::Trace trace = maker.without_times().alloc(0x1000, 10).finish();
  report::Report report = report_at_end(trace);
  report.devices[0].device_type = "a \"b\",\r\nc";
  const std::string text = exported(*exporters::timeline_csv::make(), trace, report);
  EXPECT_NE(text.find("\r\n0,\"a \"\"b\"\",\r\nc\",0,1,,0,"), std::string::npos) << text;
}

}  // namespace
}  // namespace plimsoll::tests
