#include "charts/timeline.h"

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page/svg.h"
#include "tests/support/drawn.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"
#include "tests/support/xml_text.h"

namespace plimsoll::charts {
namespace {

using model::Phase;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using tests::illegible;
using tests::kMib;
using tests::shapes;
using tests::TraceMaker;

struct Made {
  explicit Made(model::Trace made) : trace(std::move(made)), lines(trace) {
    report.device_type = "cuda";
  }
  TimelineData data(const TimelineQuestion& question = {}) const {
    return timeline_data(trace, trace.devices[0], report, lines, question);
  }
  Chart chart(const ChartOptions& options = {}, TimelineQuestion question = {}) const {
    question.columns = timeline_columns(options);
    return timeline(data(question), options);
  }

  model::Trace trace;
  model::UserLines lines;
  report::DeviceReport report;
};

ChartOptions with_legend(double width = 960) {
  ChartOptions options;
  options.width = width;
  options.title = "run.plim";
  options.subtitle = "live bytes";
  options.has_legend = true;
  return options;
}

// A training run of `steps` steps: parameters, and activations that are allocated and freed.
Made training(std::uint64_t steps) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 4 * kMib, {.category = "parameter"});
  for (std::uint64_t step = 1; step <= steps; ++step) {
    maker.alloc_reported(0x9000, 2 * kMib, {.category = "activation", .phase = Phase::kForward});
    maker.alloc_reported(0xA000, kMib, {.category = "temporary", .phase = Phase::kBackward});
    maker.free_immediately(0xA000, kMib).free_immediately(0x9000, 2 * kMib).step(step);
  }
  return Made(maker.finish());
}

// The bytes of a band in the column at this share of the plot's width.
double bytes_in(const Chart& chart, const page::Area& band, double share) {
  const double x = chart.x + chart.width * share;
  for (std::size_t i = 0; i < band.tops.size(); ++i) {
    if (x < band.edges[i] || x >= band.edges[i + 1]) continue;
    const double height = band.bottoms[i] - band.tops[i];
    // Bands have a seam of 0.75 pixels above them.
    return (height > 2 ? height + 0.75 : height) * chart.bytes_at_top / chart.height;
  }
  return -1;
}

TEST(Timeline, heights_are_bytes) {
  const Chart chart = training(1).chart();
  const auto bands = shapes<page::Area>(chart.drawing);
  ASSERT_EQ(bands.size(), 3u);
  EXPECT_EQ(bands[0].hint.key, "parameter");
  EXPECT_EQ(bands[1].hint.key, "activation");
  EXPECT_EQ(bands[2].hint.key, "temporary");
  const double pixel = chart.bytes_at_top / chart.height;
  // Step 1 has five events; the third is the peak.
  EXPECT_NEAR(bytes_in(chart, bands[0], 0.55), 4 * kMib, pixel / 10);
  EXPECT_NEAR(bytes_in(chart, bands[1], 0.55), 2 * kMib, pixel / 10);
  EXPECT_NEAR(bytes_in(chart, bands[2], 0.55), kMib, pixel / 10);
  EXPECT_NEAR(bytes_in(chart, bands[1], 0.05), 0, pixel / 10);
}

TEST(Timeline, every_column_sums_to_its_live_bytes) {
  const TimelineData data = training(7).data();
  ASSERT_EQ(data.columns.size(), 880u);
  for (std::size_t i = 0; i < data.columns.size(); ++i) {
    std::uint64_t sum = 0;
    for (const GroupStyle& style : data.stack) sum += data.bands.of(style.group)[i];
    EXPECT_EQ(sum, static_cast<std::uint64_t>(data.columns[i].live_bytes)) << i;
    EXPECT_EQ(data.not_in_bands[i], 0);
  }
  EXPECT_EQ(data.columns[data.peak_column].live_bytes, static_cast<std::int64_t>(7 * kMib));
}

TEST(Timeline, fewer_columns_are_those_of_a_coarser_question) {
  const Made made = training(37);
  const TimelineData fine = made.data({.columns = 512});
  for (const std::size_t columns : {512U, 256U, 64U}) {
    const TimelineData derived = coarser(fine, columns);
    const TimelineData asked = made.data({.columns = columns});
    ASSERT_EQ(derived.columns.size(), columns);
    for (std::size_t i = 0; i < columns; ++i) {
      EXPECT_EQ(derived.columns[i].point, asked.columns[i].point) << i;
      EXPECT_EQ(derived.columns[i].live_bytes, asked.columns[i].live_bytes) << i;
    }
    EXPECT_EQ(derived.bands.bytes, asked.bands.bytes);
    EXPECT_EQ(derived.bands.counts, asked.bands.counts);
    EXPECT_EQ(derived.not_in_bands, asked.not_in_bands);
    EXPECT_EQ(derived.peak_column, asked.peak_column);
    ASSERT_EQ(derived.steps.size(), asked.steps.size());
    EXPECT_DOUBLE_EQ(derived.steps[7].begin, asked.steps[7].begin);
  }
}

TEST(Timeline, the_mark_is_at_the_peak) {
  const Chart chart = training(2).chart();
  EXPECT_THAT(tests::texts(chart.drawing), Contains("peak 7.0 MiB \xC2\xB7 step 1"));
  const auto marks = shapes<page::Circle>(chart.drawing);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_NEAR(chart.y + chart.height - marks[0].y, 7 * kMib * chart.height / chart.bytes_at_top, 1);
  EXPECT_GT(marks[0].x, chart.x + chart.width * 0.15);
  EXPECT_LT(marks[0].x, chart.x + chart.width * 0.35);
  EXPECT_THAT(tests::tooltips(chart.drawing), Contains("activation: 2.0 MiB at the peak"));
  EXPECT_THAT(chart.description, HasSubstr("Peak 7.0 MiB, step 1"));
}

TEST(Timeline, steps_are_labelled_as_densely_as_they_fit) {
  for (const std::uint64_t steps : {1u, 2u, 13u, 40u, 333u, 10'000u}) {
    const Made made = training(steps);
    for (const double width : {200.0, 500.0, 960.0, 2000.0}) {
      const Chart chart = made.chart(with_legend(width));
      EXPECT_EQ(illegible(chart.drawing), "") << steps << " steps, width " << width;
      std::size_t labels = 0;
      for (const std::string& text : tests::texts(chart.drawing)) {
        labels += text.find_first_not_of("step 0123456789") == std::string::npos ? 1 : 0;
      }
      EXPECT_GE(labels, steps == 1 ? 1u : 2u) << steps << " steps, width " << width;
      EXPECT_LE(labels, width / 15) << steps << " steps, width " << width;
    }
  }
}

TEST(Timeline, phases_are_a_strip) {
  const Chart chart = training(1).chart(with_legend());
  const page::Rect forward = tests::rect_with(chart.drawing, "forward");
  const page::Rect backward = tests::rect_with(chart.drawing, "backward");
  EXPECT_EQ(forward.fill.paint, page::Paint::kActivation);
  EXPECT_EQ(backward.fill.paint, page::Paint::kActivationGradient);
  EXPECT_NEAR(forward.x + forward.width, backward.x, 0.01);
  EXPECT_GT(forward.y, chart.y + chart.height);
  EXPECT_THAT(tests::texts(chart.drawing), Contains("in the strip: forward"));
}

TEST(Timeline, other_groups_are_stacked_by_size_and_the_rest_is_summed) {
  TraceMaker maker;
  for (std::uint64_t i = 12; i > 0; --i) {
    maker.alloc(0x1000 * i, i * kMib, maker.stack({{"train.py", static_cast<uint32_t>(i), "f"}}));
  }
  const Made made(maker.finish());
  TimelineQuestion question;
  question.by = model::Dimension::kLine;
  question.most_groups = 3;
  const TimelineData data = made.data(question);
  std::vector<std::string> labels;
  for (const GroupStyle& style : data.stack) labels.push_back(style.label);
  EXPECT_THAT(labels, ElementsAre(StartsWith("train.py:12"), StartsWith("train.py:11"),
                                  StartsWith("train.py:10"), "[everything else]"));
  EXPECT_EQ(data.bands.of(data.stack.back().group)[data.peak_column], 45 * kMib);
  EXPECT_EQ(data.stack.back().paint, page::Paint::kOther);
}

TEST(Timeline, there_are_never_more_groups_than_colors) {
  TraceMaker maker;
  for (std::uint64_t i = 1; i <= 40; ++i) {  // the smallest live longest
    maker.alloc(0x1000 * i, i * kMib, maker.stack({{"train.py", static_cast<uint32_t>(i), "f"}}));
  }
  TimelineQuestion question;
  question.by = model::Dimension::kLine;
  const TimelineData data = Made(maker.finish()).data(question);
  EXPECT_LE(data.stack.size(), 9u);
  EXPECT_GE(data.stack.size(), 5u);
  EXPECT_THAT(data.stack[0].label, StartsWith("train.py:40"));
}

TEST(Timeline, out_of_memory_is_marked_where_it_happened) {
  Made made = training(4);
  report::Oom oom;
  oom.event = 12;
  oom.requested_bytes = 33 * kMib;
  made.report.ooms = {oom};
  const Chart chart = made.chart(with_legend());
  EXPECT_THAT(tests::texts(chart.drawing),
              Contains("out of memory \xC2\xB7 a request of 33.0 MiB"));
  EXPECT_EQ(illegible(chart.drawing), "");
  made.report.ooms = std::vector<report::Oom>(300, oom);
  EXPECT_THAT(tests::texts(made.chart().drawing),
              Contains("300 times out of memory \xC2\xB7 a request of 33.0 MiB"));
}

TEST(Timeline, a_limit_near_the_peak_is_a_line_and_a_distant_one_is_not) {
  Made made = training(4);
  report::OomDetails details;
  details.device_total_bytes = 80 * kMib;
  details.limit_bytes = 8 * kMib;
  made.report.oom_details = {details};
  EXPECT_THAT(tests::texts(made.chart().drawing), Contains("limit of the process 8.0 MiB"));
  EXPECT_EQ(illegible(made.chart(with_legend()).drawing), "");
  made.report.oom_details[0].limit_bytes = 80 * kMib;
  EXPECT_THAT(tests::texts(made.chart().drawing), Not(Contains(HasSubstr("80.0 MiB"))));
}

TEST(Timeline, lost_events_are_a_hatched_strip) {
  Made made = training(2);
  made.trace.devices[0].history = model::History::kTruncated;
  const Chart chart = made.chart(with_legend());
  const page::Rect strip = tests::rect_with(chart.drawing, "earlier events are lost");
  EXPECT_EQ(strip.fill.hatch, page::Paint::kMuted);
  EXPECT_NEAR(strip.x + strip.width, chart.x, 0.01);
  EXPECT_EQ(illegible(chart.drawing), "");
}

TEST(Timeline, what_is_not_used_again_is_hatched_on_top_of_its_band) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 4 * kMib, {.category = "parameter", .use = {.unused_from = 0}});
  maker.alloc_reported(0x9000, 2 * kMib, {.category = "activation", .use = {.unused_from = 2}});
  maker.alloc_reported(0xA000, 3 * kMib, {.category = "activation", .use = {.unused_from = 9}});
  maker.alloc_reported(0xB000, kMib, {.category = "temporary", .use = {.unused_from = 9}});
  const Made made(maker.finish());
  const Chart chart = made.chart(with_legend());
  const auto areas = shapes<page::Area>(chart.drawing);
  ASSERT_EQ(areas.size(), 4u) << "three bands; only activations have a hatch";
  const page::Area& band = areas[1];
  const page::Area& hatch = areas[2];
  EXPECT_EQ(band.hint.key, "activation");
  EXPECT_EQ(hatch.fill.slope, page::HatchSlope::kFalling);
  EXPECT_EQ(hatch.fill.paint, page::Paint::kNone);
  EXPECT_EQ(hatch.tops.back(), band.tops.back());
  const double pixel = chart.bytes_at_top / chart.height;
  EXPECT_NEAR(bytes_in(chart, hatch, 0.9), 2 * kMib, pixel / 10);
  EXPECT_NEAR(bytes_in(chart, hatch, 0.4), 0, pixel / 10);
  EXPECT_THAT(tests::texts(chart.drawing), Contains("not used again"));
  EXPECT_THAT(tests::tooltips(chart.drawing),
              Contains("activation, not used again: 2.0 MiB at the peak"));
  EXPECT_THAT(chart.description, HasSubstr(", 2.0 MiB not used again."));
  EXPECT_EQ(illegible(chart.drawing), "");
  const TimelineData fine = made.data({.columns = 64});
  const TimelineData asked = made.data({.columns = 16});
  EXPECT_EQ(coarser(fine, 16).unused.bytes, asked.unused.bytes);
  EXPECT_EQ(asked.unused_bytes(15), 2 * kMib);
}

TEST(Timeline, without_uses_nothing_is_hatched) {
  const Made made = training(2);
  EXPECT_TRUE(made.data().unused.names.empty());
  EXPECT_THAT(tests::texts(made.chart(with_legend()).drawing), Not(Contains("not used again")));
}

TEST(Timeline, memory_in_no_allocation_is_shown) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 2 * kMib, {.category = "activation"});
  Made made(maker.finish());
  made.report.requested_active.baseline_bytes = 3 * kMib;
  const Chart chart = made.chart(with_legend());
  EXPECT_THAT(tests::texts(chart.drawing),
              testing::AllOf(Contains("allocated before the recording, not in the file"),
                             Contains(StartsWith("peak 5.0"))));
}

TEST(Timeline, a_file_that_contradicts_itself_has_no_peak) {
  Made made = training(2);
  made.report.requested_active.baseline_bytes = -5 * static_cast<std::int64_t>(kMib);
  const Chart chart = made.chart(with_legend());
  EXPECT_TRUE(shapes<page::Circle>(chart.drawing).empty());
  EXPECT_THAT(chart.description, HasSubstr("unknown: events and segments disagree"));
  EXPECT_GE(chart.bytes_at_top, 7 * kMib) << "the bands are whole";
}

TEST(Timeline, small_recordings_are_legible) {
  TraceMaker one;
  one.alloc(0x1000, 512);
  TraceMaker none;
  none.alloc(0x1000, 0);
  TraceMaker huge;
  huge.without_times().alloc(1, ~std::uint64_t{0}).alloc(2, ~std::uint64_t{0} / 3);
  for (TraceMaker* maker : {&one, &none, &huge}) {
    const Made made(maker->finish());
    for (const double width : {200.0, 960.0}) {
      const Chart chart = made.chart(with_legend(width));
      EXPECT_EQ(illegible(chart.drawing), "") << width;
      EXPECT_EQ(tests::xml_flaw(page::to_svg(chart.drawing, {})), "");
    }
  }
}

TEST(Timeline, without_events_there_is_a_sentence) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  const Chart chart = Made(maker.finish()).chart();
  EXPECT_THAT(tests::texts(chart.drawing), ElementsAre("No memory events were recorded."));
  EXPECT_TRUE(shapes<page::Area>(chart.drawing).empty());
}

TEST(Timeline, each_axis_is_labelled) {
  const Made made = training(3);
  TimelineQuestion question;
  question.axis = tiles::AxisKind::kTime;
  EXPECT_THAT(tests::texts(made.chart({}, question).drawing), Contains("10 \xC2\xB5s"));
  question.axis = tiles::AxisKind::kEvent;
  EXPECT_THAT(tests::texts(made.chart({}, question).drawing), Contains("event 10"));
}

TEST(Timeline, names_of_any_content_are_text) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, kMib, {.layer = "</script><script>alert(1)</script>"});
  maker.alloc_reported(0x2000, kMib, {.layer = "\"><img onerror=x>\xFF\xE2\x80\xAE"});
  maker.alloc_reported(0x3000, kMib, {.layer = std::string(1 << 20, 'x')});
  const Made made(maker.finish());
  TimelineQuestion question;
  question.by = model::Dimension::kLayer;
  const Chart chart = made.chart(with_legend(), question);
  tests::XmlElement root;
  EXPECT_EQ(tests::XmlReader(page::to_svg(chart.drawing, {})).read(root), "");
  EXPECT_TRUE(root.all("script").empty());
  EXPECT_EQ(illegible(chart.drawing), "");
}

}  // namespace
}  // namespace plimsoll::charts
