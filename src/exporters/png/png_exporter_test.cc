#include "exporters/png/png_exporter.h"

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"
#include "tests/support/png_image.h"

namespace plimsoll::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Png, ExporterSuite,
                         testing::Values(ExporterCase{exporters::png::make, png_flaw}));

TEST(PngExporter, bands_have_the_color_of_their_category) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 1 << 20, {.category = "parameter"});
  maker.alloc_reported(0x2000, 1 << 20, {.category = "activation"});
  const model::Trace trace = maker.finish();
  report::Report report = report_at_end(trace);
  report.devices[0].requested_active.peak_bytes = 2 << 20;
  PngImage image;
  ASSERT_EQ(PngReader(exported(*exporters::png::make(), trace, report)).read(image), "");
  EXPECT_EQ(image.width, 1920u);
  // In columns that show the second event, the lower half is blue and the upper half is yellow.
  const std::size_t x = 1700;
  std::size_t blue = 0;
  std::size_t yellow = 0;
  for (std::size_t y = 0; y < image.height; ++y) {
    blue += image.pixel(x, y) == std::array<int, 3>{0x2e, 0x53, 0x95} ? 1 : 0;
    yellow += image.pixel(x, y) == std::array<int, 3>{0xc2, 0x85, 0x0c} ? 1 : 0;
  }
  EXPECT_GT(blue, 200u);
  EXPECT_NEAR(static_cast<double>(blue), static_cast<double>(yellow), 4);
}

}  // namespace
}  // namespace plimsoll::tests
