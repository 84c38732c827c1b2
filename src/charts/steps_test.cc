#include "charts/steps.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/drawn.h"
#include "tests/support/units.h"

namespace plimsoll::charts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::illegible;
using tests::kMib;
using tests::rect_with;

report::StepRow step_row(std::uint64_t number, std::uint64_t floor_mib, std::uint64_t peak_mib) {
  report::StepRow row;
  row.step = number;
  row.end_bytes = floor_mib * kMib;
  row.peak_bytes = peak_mib * kMib;
  return row;
}

ChartOptions step_options(double width = 960) {
  ChartOptions options;
  options.width = width;
  options.title = "run.plim";
  options.has_legend = true;
  return options;
}

TEST(Steps, bars_reach_from_the_floor_to_the_peak) {
  report::Report report;
  report.tables.steps = {step_row(1, 10, 30), step_row(2, 12, 60)};
  const Chart chart = steps(report, 0, {});
  const double mib = chart.height * kMib / chart.bytes_at_top;
  const page::Rect floor = rect_with(chart.drawing, "step 2: 12.0 MiB live at the end");
  EXPECT_NEAR(floor.height, 12 * mib, 0.01);
  EXPECT_NEAR(floor.y + floor.height, chart.y + chart.height, 0.01);
  const page::Rect peak = rect_with(chart.drawing, "step 2: peak 60.0 MiB");
  EXPECT_NEAR(peak.height, 48 * mib, 0.01);
  EXPECT_NEAR(peak.y + peak.height, floor.y, 0.01);
  EXPECT_EQ(peak.fill.paint, page::Paint::kCritical);
  EXPECT_EQ(rect_with(chart.drawing, "step 1: peak 30.0 MiB").fill.paint, page::Paint::kAccent);
  EXPECT_THAT(tests::texts(chart.drawing), Contains("peak 60.0 MiB \xC2\xB7 step 2"));
}

TEST(Steps, too_many_steps_are_grouped_with_their_maxima) {
  report::Report report;
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    report.tables.steps.push_back(step_row(i, 10, i == 7'777 ? 99 : 50));
  }
  const Chart chart = steps(report, 0, step_options());
  std::size_t bars = 0;
  for (const std::string& tooltip : tests::tooltips(chart.drawing)) {
    bars += tooltip.find(": peak ") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(bars, 240u);
  EXPECT_THAT(tests::texts(chart.drawing), Contains(HasSubstr("peak 99.0 MiB \xC2\xB7 steps 77")));
  EXPECT_EQ(illegible(chart.drawing), "");
}

TEST(Steps, growth_is_a_line_only_where_it_is_certain) {
  report::Report report;
  for (std::uint64_t i = 1; i <= 20; ++i)
    report.tables.steps.push_back(step_row(i, 10 + 2 * i, 60));
  report::GrowthRow row;
  row.bytes_per_step = 2 * kMib;
  row.first_step = 5;
  row.boundary = "step";
  row.is_certain = true;
  report.tables.growth = {row};
  const Chart chart = steps(report, 0, step_options());
  EXPECT_THAT(tests::texts(chart.drawing), Contains("+2.0 MiB per step, in 1 line"));
  EXPECT_EQ(illegible(chart.drawing), "");
  // The line is on the floors, which grow as the table says.
  const double mib = chart.height * kMib / chart.bytes_at_top;
  for (const page::Polyline& line : tests::shapes<page::Polyline>(chart.drawing)) {
    if (line.stroke.dash == 0 || line.points[0].y < chart.y) continue;
    EXPECT_NEAR(line.points[0].y, chart.y + chart.height - 22 * mib, 0.01);  // step 6
    EXPECT_NEAR(line.points[1].y, chart.y + chart.height - 50 * mib, 0.01);  // step 20
  }
  report.tables.growth[0].is_certain = false;
  EXPECT_THAT(tests::texts(steps(report, 0, {}).drawing), Not(Contains(HasSubstr("per step"))));
  report.tables.growth[0].is_certain = true;
  report.tables.growth[0].boundary = "cycle";
  EXPECT_THAT(tests::texts(steps(report, 0, {}).drawing), Not(Contains(HasSubstr("per step"))));
}

TEST(Steps, any_number_of_steps_is_legible) {
  for (const std::uint64_t count : {1u, 2u, 9u, 100u, 1234u}) {
    report::Report report;
    for (std::uint64_t i = 1; i <= count; ++i) report.tables.steps.push_back(step_row(i, 10, 20));
    report.tables.steps.push_back(step_row(count + 1, 5, 6));
    report.tables.steps.back().is_complete = false;
    for (const double width : {200.0, 960.0}) {
      EXPECT_EQ(illegible(steps(report, 0, step_options(width)).drawing), "")
          << count << " steps, width " << width;
    }
  }
}

TEST(Steps, without_marks_there_is_a_sentence) {
  report::Report report;
  report.tables.steps = {step_row(1, 1, 1)};
  report.tables.steps[0].is_complete = false;
  EXPECT_THAT(tests::texts(steps(report, 0, {}).drawing), ElementsAre("No steps are marked."));
  EXPECT_THAT(tests::texts(steps({}, 0, {}).drawing), ElementsAre("No steps are marked."));
}

TEST(Steps, steps_of_zero_bytes_can_be_drawn) {
  report::Report report;
  report.tables.steps = {step_row(1, 0, 0)};
  EXPECT_EQ(illegible(steps(report, 0, step_options()).drawing), "");
}

}  // namespace
}  // namespace plimsoll::charts
