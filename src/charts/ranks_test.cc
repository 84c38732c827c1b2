#include "charts/ranks.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page/svg.h"
#include "tests/support/drawn.h"
#include "tests/support/units.h"

namespace plimsoll::charts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::illegible;
using tests::kMib;
using tests::rect_with;

report::Report steps_of(const std::vector<std::uint64_t>& peaks_mib) {
  report::Report report;
  for (std::size_t i = 0; i < peaks_mib.size(); ++i) {
    report::StepRow row;
    row.step = i + 1;
    row.peak_bytes = peaks_mib[i] * kMib;
    report.tables.steps.push_back(row);
  }
  report.devices.emplace_back();
  return report;
}

std::vector<RankSteps> rows_of(const std::vector<report::Report>& reports) {
  std::vector<RankSteps> rows;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    rows.push_back(charts::steps_of(reports[i], 0, static_cast<std::int64_t>(i)));
  }
  return rows;
}

ChartOptions rank_options(double width = 960) {
  ChartOptions options;
  options.width = width;
  options.title = "4 ranks";
  options.has_legend = true;
  return options;
}

TEST(Ranks, colors_are_deviations_from_the_median_of_the_step) {
  const std::vector<report::Report> reports = {steps_of({10, 10}), steps_of({10, 30}),
                                               steps_of({10, 5})};
  const Chart chart = ranks(rows_of(reports), rank_options());
  const page::Rect above =
      rect_with(chart.drawing, "rank 1, step 2: 30.0 MiB, +20.0 MiB from the median");
  EXPECT_EQ(above.fill.paint, page::Paint::kHigh);
  EXPECT_EQ(above.fill.opacity, 1);
  const page::Rect below =
      rect_with(chart.drawing, "rank 2, step 2: 5.0 MiB, -5.0 MiB from the median");
  EXPECT_EQ(below.fill.paint, page::Paint::kLow);
  EXPECT_EQ(below.fill.opacity, 0.25);
  const page::Rect same = rect_with(chart.drawing, "rank 0, step 1: 10.0 MiB, +0 B");
  EXPECT_EQ(same.fill.paint, page::Paint::kGrid);
  EXPECT_THAT(tests::texts(chart.drawing), Contains("20.0 MiB below the median of the step"));
}

TEST(Ranks, missing_steps_are_blank_and_a_failed_rank_ends_with_a_cross) {
  std::vector<report::Report> reports = {steps_of({10, 10, 10}), steps_of({10})};
  reports[1].devices[0].ooms.emplace_back();
  const Chart chart = ranks(rows_of(reports), {});
  std::size_t cells = 0;
  for (const std::string& tooltip : tests::tooltips(chart.drawing)) {
    cells += tooltip.starts_with("rank 1") ? 1 : 0;
  }
  EXPECT_EQ(cells, 1u);
  const auto crosses = tests::shapes<page::Polyline>(chart.drawing);
  ASSERT_EQ(crosses.size(), 2u);
  const page::Rect cell = rect_with(chart.drawing, "rank 1, step 1");
  EXPECT_GT(crosses[0].points[0].x, cell.x);
  EXPECT_LT(crosses[0].points[0].x, cell.x + cell.width);
  EXPECT_THAT(chart.description, HasSubstr("Memory ran out on rank 1."));
}

TEST(Ranks, a_thousand_ranks_of_a_thousand_steps_are_a_small_file) {
  std::vector<report::Report> reports;
  for (std::uint64_t rank = 0; rank < 1024; ++rank) {
    reports.push_back(steps_of(std::vector<std::uint64_t>(100, rank == 500 ? 30 : 10)));
  }
  const Chart chart = ranks(rows_of(reports), rank_options());
  EXPECT_EQ(illegible(chart.drawing), "");
  EXPECT_LT(page::to_svg(chart.drawing, {}).size(), 400'000u);
}

TEST(Ranks, of_many_ranks_the_one_that_differs_is_shown_and_named) {
  std::vector<RankSteps> rows;
  for (std::int64_t rank = 0; rank < 4096; ++rank) {
    rows.push_back({.rank = rank, .steps = {{1, 10 * kMib}, {2, (rank == 1365 ? 30 : 10) * kMib}}});
  }
  const Chart chart = ranks(rows, rank_options());
  EXPECT_EQ(illegible(chart.drawing), "");
  EXPECT_LT(chart.drawing.height, 1500);
  EXPECT_EQ(rect_with(chart.drawing, "rank 1365, step 2: 30.0 MiB, +20.0 MiB").fill.paint,
            page::Paint::kHigh);
  EXPECT_THAT(tests::texts(chart.drawing), Contains("rank 1365"));
  EXPECT_THAT(chart.description, HasSubstr("4,096 ranks; the highest peak is 30.0 MiB"));
}

TEST(Ranks, are_compared_within_their_group) {
  std::vector<RankSteps> rows;
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    const std::uint64_t stage = rank / 3;
    rows.push_back({.rank = rank, .group = stage, .steps = {{1, (10 + 40 * stage) * kMib}}});
  }
  for (const std::string& tooltip : tests::tooltips(ranks(rows, rank_options()).drawing)) {
    EXPECT_THAT(tooltip, HasSubstr("+0 B from the median"));
  }
}

TEST(Ranks, any_width_is_legible) {
  std::vector<report::Report> reports;
  for (int rank = 0; rank < 4; ++rank) {
    reports.push_back(steps_of(std::vector<std::uint64_t>(120, 10)));
  }
  for (const double width : {240.0, 500.0, 960.0}) {
    EXPECT_EQ(illegible(ranks(rows_of(reports), rank_options(width)).drawing), "") << width;
  }
}

TEST(Ranks, without_steps_there_is_a_sentence) {
  const std::vector<report::Report> reports(2);
  EXPECT_THAT(tests::texts(ranks(rows_of(reports), {}).drawing),
              ElementsAre("No steps are marked on any rank."));
}

}  // namespace
}  // namespace plimsoll::charts
