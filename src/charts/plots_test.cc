#include "charts/plots.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/export_generated.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::charts {
namespace {

using ::testing::HasSubstr;
using tests::TraceMaker;

struct Recording {
  explicit Recording(model::Trace made)
      : trace(std::move(made)), lines(trace), report(tests::report_at_end(trace)) {}
  PlotInput input() const { return {trace, report, lines, 0}; }

  model::Trace trace;
  model::UserLines lines;
  report::Report report;
};

Recording one_event(model::Device device = {model::DeviceType::kCuda, 0}) {
  TraceMaker maker;
  maker.on(device).without_times().alloc(0x1000, 3 << 20);
  return Recording(maker.finish());
}

std::string error_of(const Result<Plot>& plot) { return plot ? "no error" : plot.error().message; }

TEST(Plots, the_title_is_from_the_recording_unless_one_is_given) {
  const Recording recording = one_event();
  const auto plot = plot_timeline(recording.input(), {});
  ASSERT_TRUE(plot);
  EXPECT_EQ(plot->title, "made.pickle \xC2\xB7 cuda:0 \xC2\xB7 peak 3.0 MiB");
  PlotOptions options;
  options.title = "Figure 1";
  EXPECT_EQ(plot_timeline(recording.input(), options)->title, "Figure 1");
}

TEST(Plots, missing_data_is_an_error_that_says_what_records_it) {
  const Recording recording = one_event();
  EXPECT_THAT(error_of(plot_layers(recording.input(), {})),
              HasSubstr("has no layers; plimsoll run"));
  EXPECT_THAT(error_of(plot_segments(recording.input(), {})),
              HasSubstr("no segments of cuda:0 are known at the end"));
  EXPECT_THAT(error_of(plot_steps(recording.input(), {})),
              HasSubstr("no steps are marked on cuda:0; plimsoll run"));
  const Recording host = one_event({model::DeviceType::kCpu, -1});
  EXPECT_THAT(error_of(plot_segments(host.input(), {})), HasSubstr("cpu has no segments: only"));
  TraceMaker none;
  none.on({model::DeviceType::kCuda, 0});
  const Recording empty(none.finish());
  EXPECT_THAT(error_of(plot_timeline(empty.input(), {})),
              HasSubstr("no memory events of cuda:0 were recorded"));
}

TEST(Plots, axes_and_groups_that_the_recording_lacks_are_errors) {
  const Recording recording = one_event();
  PlotOptions options;
  options.axis = "time";
  EXPECT_THAT(error_of(plot_timeline(recording.input(), options)),
              HasSubstr("no --axis time; use event"));
  options.axis = "step";
  EXPECT_THAT(error_of(plot_timeline(recording.input(), options)), HasSubstr("plimsoll.step()"));
  options = {};
  options.by = "category";
  EXPECT_THAT(error_of(plot_timeline(recording.input(), options)),
              HasSubstr("no data by category; choose another --by"));
}

std::vector<report::Report> ranks_of(std::initializer_list<int> numbers) {
  std::vector<report::Report> reports;
  for (const int number : numbers) {
    report::Report report = one_event().report;
    report.source.rank = number;
    report.source.path = "runs/rank" + std::to_string(number) + ".plim";
    report.tables.steps.emplace_back().step = 1;
    reports.push_back(std::move(report));
  }
  return reports;
}

TEST(Plots, ranks_are_sorted_by_number) {
  const auto plot = plot_ranks(ranks_of({2, 0, 1}), {});
  ASSERT_TRUE(plot);
  EXPECT_EQ(plot->title, "rank0.plim \xC2\xB7 3 ranks");
}

TEST(Plots, ranks_must_be_different_known_and_at_least_two) {
  EXPECT_THAT(error_of(plot_ranks(ranks_of({1}), {})), HasSubstr("2 ranks or more; got 1"));
  EXPECT_THAT(error_of(plot_ranks(ranks_of({1, 1}), {})),
              HasSubstr("runs/rank1.plim: another file is also of rank 1"));
  std::vector<report::Report> reports = ranks_of({0, 1});
  reports[1].source.rank.reset();
  EXPECT_THAT(error_of(plot_ranks(reports, {})), HasSubstr("runs/rank1.plim: the rank"));
  reports = ranks_of({0, 1});
  for (report::Report& report : reports) report.tables.steps.clear();
  EXPECT_THAT(error_of(plot_ranks(reports, {})), HasSubstr("no steps are marked in any of the 2"));
}

}  // namespace
}  // namespace plimsoll::charts
