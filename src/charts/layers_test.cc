#include "charts/layers.h"

#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page/svg.h"
#include "tests/support/drawn.h"
#include "tests/support/units.h"
#include "tests/support/xml_text.h"

namespace plimsoll::charts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::illegible;
using tests::kMib;
using tests::rect_with;

report::FoldedLayerRow row(const std::string& path, std::uint64_t mib, std::size_t layers = 1) {
  report::FoldedLayerRow row;
  row.layer = path;
  row.layers.assign(layers, path);
  row.inclusive.bytes = mib * kMib;
  row.inclusive.forward_bytes = mib * kMib / 2;
  row.inclusive.other_bytes = row.inclusive.bytes - row.inclusive.forward_bytes;
  return row;
}

report::Report layers_report(std::vector<report::FoldedLayerRow> rows) {
  report::Report report;
  report.tables.folded_layers = std::move(rows);
  return report;
}

const report::Report& model_report() {
  static const report::Report kReport = layers_report(
      {row("", 10), row("Net", 90), row("Net.blocks", 80), row("Net.blocks.0\u20263", 80, 4),
       row("Net.blocks.0\u20263.mlp", 60, 4), row("Net.head", 10)});
  return kReport;
}

TEST(Layers, widths_are_bytes) {
  const Chart chart = layers(model_report(), 0, {});
  const double mib = chart.width / 100;
  EXPECT_NEAR(rect_with(chart.drawing, "Net: 90.0 MiB").width, 90 * mib, 2);
  EXPECT_NEAR(rect_with(chart.drawing, "[no layer]: 10.0 MiB").width, 10 * mib, 2);
  EXPECT_NEAR(rect_with(chart.drawing, "Net.blocks.0\u20263.mlp: 60.0 MiB").width, 60 * mib, 2);
  EXPECT_NEAR(rect_with(chart.drawing, "Net.head: 10.0 MiB").width, 10 * mib, 2);
}

TEST(Layers, a_box_is_below_the_layer_that_contains_it) {
  const Chart chart = layers(model_report(), 0, {});
  const page::Rect net = rect_with(chart.drawing, "Net:");
  const page::Rect blocks = rect_with(chart.drawing, "Net.blocks:");
  const page::Rect head = rect_with(chart.drawing, "Net.head:");
  EXPECT_EQ(net.x, blocks.x);
  EXPECT_GT(blocks.y, net.y + net.height);
  EXPECT_EQ(head.y, blocks.y);
  EXPECT_GE(head.x, blocks.x + blocks.width);
  EXPECT_GE(rect_with(chart.drawing, "[no layer]").x, net.x + net.width);
}

TEST(Layers, names_and_bytes_are_in_the_boxes_where_they_fit) {
  const Chart chart = layers(model_report(), 0, {});
  EXPECT_THAT(tests::texts(chart.drawing), Contains("0\u20263 (4 layers)  80.0 MiB"));
  for (const double width : {200.0, 400.0, 960.0, 3000.0}) {
    ChartOptions options;
    options.width = width;
    EXPECT_EQ(illegible(layers(model_report(), 0, options).drawing), "") << width;
  }
}

TEST(Layers, the_stripe_shows_the_phases) {
  const Chart chart = layers(model_report(), 0, {});
  const page::Rect forward = rect_with(chart.drawing, "forward: 45.0 MiB");
  EXPECT_EQ(forward.fill.paint, page::Paint::kActivation);
  EXPECT_NEAR(forward.width, rect_with(chart.drawing, "Net:").width / 2, 0.1);
}

TEST(Layers, thin_layers_are_summed) {
  std::vector<report::FoldedLayerRow> rows = {row("Net", 10'000)};
  for (int i = 0; i < 500; ++i) rows.push_back(row("Net.small" + std::to_string(i), 1));
  const Chart chart = layers(layers_report(rows), 0, {});
  EXPECT_THAT(tests::tooltips(chart.drawing), Contains("500 smaller layers: 500.0 MiB"));
}

TEST(Layers, levels_without_room_are_mentioned) {
  ChartOptions options;
  options.height = 90;
  const Chart chart = layers(model_report(), 0, options);
  EXPECT_THAT(tests::texts(chart.drawing), Contains(HasSubstr("2 deeper levels are not shown")));
}

TEST(Layers, another_device_has_no_layers) {
  EXPECT_THAT(tests::texts(layers(model_report(), 1, {}).drawing),
              ElementsAre("No memory belongs to a layer."));
}

TEST(Layers, names_of_any_content_are_text) {
  const report::Report report = layers_report(
      {row("</script><b>", 5), row("a\xFF\xE2\x80\xAE\"'&", 5), row(std::string(1 << 20, '<'), 5)});
  const std::string svg = page::to_svg(layers(report, 0, {}).drawing, {});
  EXPECT_EQ(tests::xml_flaw(svg), "");
}

}  // namespace
}  // namespace plimsoll::charts
