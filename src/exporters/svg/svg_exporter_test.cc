#include "exporters/svg/svg_exporter.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"
#include "tests/support/xml_text.h"

namespace plimsoll::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Svg, ExporterSuite,
                         testing::Values(ExporterCase{exporters::svg::make, xml_flaw}));

XmlElement svg_of(const model::Trace& trace, const report::Report& report) {
  XmlElement root;
  const std::string text = exported(*exporters::svg::make(), trace, report);
  EXPECT_EQ(XmlReader(text).read(root), "");
  return root;
}

TEST(SvgExporter, the_device_with_the_highest_peak_is_drawn) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0}).alloc(0x1000, 100);
  maker.on({model::DeviceType::kCuda, 1}).alloc(0x1000, 3 << 20);
  const model::Trace trace = maker.finish();
  report::Report report = report_at_end(trace);
  report.devices[0].requested_active.peak_bytes = 100;
  report.devices[1].requested_active.peak_bytes = 3 << 20;
  const XmlElement root = svg_of(trace, report);
  EXPECT_EQ(root.texts("title").front(), "made.pickle \xC2\xB7 cuda:1 \xC2\xB7 peak 3.0 MiB");
}

TEST(SvgExporter, the_only_device_of_the_tables_is_drawn) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0}).alloc(0x1000, 100);
  maker.on({model::DeviceType::kCuda, 1}).alloc(0x1000, 3 << 20);
  const model::Trace trace = maker.finish();
  report::Report report = report_at_end(trace);
  report.devices[1].requested_active.peak_bytes = 3 << 20;
  report.tables.points.resize(1);  // as with --device 0
  EXPECT_THAT(svg_of(trace, report).texts("title").front(), HasSubstr("cuda:0"));
}

TEST(SvgExporter, a_recording_without_events_says_so) {
  const model::Trace trace = TraceMaker().finish();
  EXPECT_THAT(svg_of(trace, report_at_end(trace)).texts("text"),
              Contains(HasSubstr("no memory events")));
}

}  // namespace
}  // namespace plimsoll::tests
