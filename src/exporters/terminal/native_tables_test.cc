#include "exporters/terminal/native_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "exporters/terminal/report.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;

report::LayerBytes layer_bytes(std::uint64_t forward, std::uint64_t backward, std::uint64_t peak) {
  report::LayerBytes bytes;
  bytes.bytes = (forward + backward) * kMiB;
  bytes.forward_bytes = forward * kMiB;
  bytes.backward_bytes = backward * kMiB;
  bytes.peak_bytes = peak * kMiB;
  return bytes;
}

report::Report native() {
  report::Report report;
  report::DeviceReport device;
  device.device = -1;
  device.device_type = "cpu";
  device.events = 500;
  report.devices.push_back(device);
  report::PointInTime point{-1, "peak", 120, {}, 30 * kMiB, 12, 0};
  point.step = 3;
  point.phase = "backward";
  point.layer = "Net.up.1";
  point.op = "ConvolutionBackward0";
  report.tables.points.push_back(point);
  report.tables.by_phase.push_back({-1, "forward", 30 * kMiB, 12, kMiB, 1.0, {}});
  report.tables.by_category.push_back({-1, "activation", 30 * kMiB, 12, kMiB, 1.0, {}});
  report.tables.by_line.push_back({-1, "net.py:7 (forward)", 30 * kMiB, 12, kMiB, 1.0, {}});
  report.tables.layers = {{-1, "", layer_bytes(1, 0, 1), layer_bytes(1, 0, 1), {}},
                          {-1, "Net", layer_bytes(0, 0, 0), layer_bytes(20, 9, 29), {}},
                          {-1, "Net.down", layer_bytes(0, 0, 0), layer_bytes(8, 0, 8), {}},
                          {-1, "Net.down.0", layer_bytes(8, 0, 8), layer_bytes(8, 0, 8), {}},
                          {-1, "Net.up", layer_bytes(0, 0, 0), layer_bytes(12, 9, 25), {}},
                          {-1, "Net.up.1", layer_bytes(12, 9, 25), layer_bytes(12, 9, 25), {}}};
  report.tables.folded_layers = report::fold_layers(report.tables.layers);
  return report;
}

TEST(ReportedText, layers_are_a_tree_with_forward_and_backward_side_by_side) {
  const report::Report report = native();
  const LayerTreeText tree = layer_tree(report, report.devices[0], 10, 100, text::Color::kOff);
  EXPECT_EQ(tree.heading,
            "; each with the layers inside it, by the phase that allocated it, and its own peak");
  EXPECT_EQ(tree.table,
            "     total   forward  backward      peak  layer\n"
            "  29.0 MiB  20.0 MiB   9.0 MiB  29.0 MiB  Net\n"
            "  21.0 MiB  12.0 MiB   9.0 MiB  25.0 MiB    up\n"
            "  21.0 MiB  12.0 MiB   9.0 MiB  25.0 MiB      1\n"
            "   8.0 MiB   8.0 MiB         -   8.0 MiB    down\n"
            "   8.0 MiB   8.0 MiB         -   8.0 MiB      0\n"
            "   1.0 MiB   1.0 MiB         -   1.0 MiB  [no layer]\n");
}

TEST(ReportedText, of_many_layers_the_largest_branches_are_shown) {
  const report::Report report = native();
  EXPECT_EQ(layer_tree(report, report.devices[0], 2, 60, text::Color::kOff).table,
            "     total   forward  backward      peak  layer\n"
            "  29.0 MiB  20.0 MiB   9.0 MiB  29.0 MiB  Net\n"
            "  21.0 MiB  12.0 MiB   9.0 MiB  25.0 MiB    up\n");
}

TEST(ReportedText, equal_layers_are_one_row_and_others_are_in_the_order_of_their_numbers) {
  report::Report report = native();
  report.tables.layers = {{-1, "Net", layer_bytes(0, 0, 0), layer_bytes(39, 9, 29), {}}};
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::uint64_t mib = i < 10 ? 2 : i;
    report.tables.layers.push_back(
        {-1, "Net.b." + std::to_string(i), {}, layer_bytes(mib, 0, mib), {}});
    report.tables.layers.back().inclusive.activation_bytes = mib * kMiB;
  }
  report.tables.layers.push_back({-1, "Net.b", {}, layer_bytes(41, 0, 41), {}});
  report.tables.folded_layers = report::fold_layers(report.tables.layers);
  EXPECT_EQ(layer_tree(report, report.devices[0], 10, 100, text::Color::kOff).table,
            "     total   forward  backward           peak  layer\n"
            "  48.0 MiB  39.0 MiB   9.0 MiB       29.0 MiB  Net\n"
            "  41.0 MiB  41.0 MiB         -       41.0 MiB    b\n"
            "  20.0 MiB  20.0 MiB         -   each 2.0 MiB      0…9 (10 × 2.0 MiB)\n"
            "  21.0 MiB  21.0 MiB         -  each 11.0 MiB      10…11 (2 × 10.5 MiB)\n");
}

TEST(ReportedText, a_tree_without_space_for_phases_omits_them) {
  const report::Report report = native();
  const LayerTreeText tree = layer_tree(report, report.devices[0], 2, 45, text::Color::kOff);
  EXPECT_EQ(tree.heading, "; each with the layers inside it, and its own peak");
  EXPECT_EQ(tree.table,
            "     total      peak  layer\n"
            "  29.0 MiB  29.0 MiB  Net\n"
            "  21.0 MiB  25.0 MiB    up\n");
}

TEST(ReportedText, native_recordings_are_reported_by_category_layer_and_line) {
  const std::string text = to_text(native(), {});
  EXPECT_THAT(text,
              HasSubstr("What fills cpu at its peak, event 120 of 500, in step 3, in backward "
                        "of Net.up.1\n  (ConvolutionBackward0): 30.0 MiB in 12 allocations\n"));
  EXPECT_THAT(text, HasSubstr("The same by layer; each with the layers inside it"));
  EXPECT_THAT(text, HasSubstr("The same by line\n"));
  EXPECT_LT(text.find("activation"), text.find("    up\n"));
  EXPECT_LT(text.find("    up\n"), text.find("net.py:7"));
}

TEST(ReportedText, memory_kept_for_backward_is_reported_by_its_allocator) {
  report::Report report = native();
  EXPECT_EQ(saved_table(report, report.devices[0], 10, 100, text::Color::kOff), "");
  report.tables.saved.push_back({-1, 99, {}, 3, 20 * kMiB, 4, 25 * kMiB, 8});
  report.tables.saved_by_operator.push_back({-1, "aten::conv2d", 20 * kMiB, 4, 8 * kMiB, 1.0, {}});
  report.tables.folded_layers.clear();
  const auto add_layer = [&](const char* name, std::size_t layers, std::uint64_t saved_bytes) {
    report::FoldedLayerRow& row = report.tables.folded_layers.emplace_back();
    row.device = -1;
    row.layer = name;
    row.layers.resize(layers);
    row.own.saved_bytes = saved_bytes;
  };
  add_layer("", 1, 0);
  add_layer("Net.up.0…3", 4, 16 * kMiB);
  add_layer("Net.down", 1, 4 * kMiB);
  const std::string text = saved_table(report, report.devices[0], 10, 100, text::Color::kOff);
  EXPECT_THAT(text,
              HasSubstr("Saved for backward on cpu: 20.0 MiB in 4 allocations, of 25.0 MiB live "
                        "when backward"));
  EXPECT_THAT(text, HasSubstr("the most of 8 backwards"));
  EXPECT_THAT(text, HasSubstr("20.0 MiB  100.0%      4  8.0 MiB  aten::conv2d\n"));
  EXPECT_THAT(text, HasSubstr("     bytes  share  layers     each  created in layer\n"
                              "  16.0 MiB  80.0%       4  4.0 MiB  Net.up.0…3\n"
                              "   4.0 MiB  20.0%       1           Net.down\n"));
  EXPECT_THAT(saved_table(report, report.devices[0], 0, 100, text::Color::kOff),
              HasSubstr("20.0 MiB  100.0%       5  4.0 MiB  [other: 2 groups]\n"));
}

TEST(ReportedText, the_last_steps_are_shown_with_their_largest_categories) {
  report::Report report = native();
  for (std::uint64_t step = 0; step < 4; ++step) {
    report::StepRow row;
    row.device = -1;
    row.step = step;
    row.peak_bytes = 30 * kMiB;
    row.end_bytes = 12 * kMiB;
    row.categories = {{"optimizer_state", 8 * kMiB, 8 * kMiB}, {"parameter", 4 * kMiB, 4 * kMiB}};
    row.is_complete = step < 3;
    report.tables.steps.push_back(row);
  }
  EXPECT_EQ(step_table(report, report.devices[0], 2, 100, text::Color::kOff),
            "Steps of cpu: the peak of each, and what was live when it ended (the last 2 of 4)\n"
            "   step      peak  at its end  optimizer state  parameter\n"
            "      2  30.0 MiB    12.0 MiB          8.0 MiB    4.0 MiB\n"
            "  after  30.0 MiB    12.0 MiB          8.0 MiB    4.0 MiB\n"
            "  after: events after the last step; their step had not ended\n");
}

TEST(ReportedText, other_files_report_missing_data) {
  report::Report report = native();
  report.tables = {};
  TextOptions options;
  options.tables = {TableKind::kSaved, TableKind::kSteps};
  const std::string text = to_text(report, options);
  EXPECT_THAT(text, HasSubstr("this file does not mark where backward begins."));
  EXPECT_THAT(text, HasSubstr("this file marks no steps."));
}

TEST(ReportedText, no_line_is_too_wide_and_nothing_colors_the_terminal) {
  report::Report report = native();
  report.tables.folded_layers[1].layer = std::string(300, 'n') + "\x1b[2J";
  report.tables.points[0].layer = "\x1b[2J";
  report.tables.steps.push_back({});
  report.tables.steps[0].device = -1;
  report.tables.steps[0].categories = {{std::string(300, 'c') + "\x1b[2J", 1, 1}};
  report.tables.saved.push_back({-1, 99, {}, 3, 20 * kMiB, 4, 25 * kMiB, 8});
  for (const std::size_t width : {60u, 80u, 100u}) {
    TextOptions options;
    options.width = width;
    options.tables = {TableKind::kLayer, TableKind::kSaved, TableKind::kSteps};
    const std::string text = to_text(report, options);
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(text::display_width(line), width) << line;
    }
  }
}

}  // namespace
}  // namespace plimsoll::exporters::terminal
