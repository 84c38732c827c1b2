#include "exporters/terminal/over_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/user_line.h"
#include "tests/support/trace_maker.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using tests::TraceMaker;

constexpr std::uint64_t kMebibyte = 1 << 20;

// The totals as the timeline pass computes them.
report::DeviceReport totals(const model::Trace& trace, std::int64_t peak_bytes,
                            std::int64_t baseline_bytes = 0) {
  report::DeviceReport device;
  device.device = trace.devices[0].device.ordinal;
  device.device_type = name_of(trace.devices[0].device.type);
  device.events = trace.devices[0].events.size();
  device.requested_active.peak_bytes = peak_bytes;
  device.requested_active.baseline_bytes = baseline_bytes;
  return device;
}

std::string chart_of(const model::Trace& trace, const report::DeviceReport& device,
                     const OverTimeOptions& options = {60, text::Color::kOff}) {
  const model::UserLines lines(trace);
  return over_time_text(trace, lines, device, options);
}

// Three steps with the same rise and fall; 4 MiB of parameters stay.
model::Trace three_steps() {
  TraceMaker maker;
  maker.on({model::DeviceType::kCpu, -1});
  maker.alloc_reported(1, 4 * kMebibyte, {.category = "parameter"});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    maker.alloc_reported(2, 8 * kMebibyte, {.category = "activation"});
    maker.alloc_reported(3, step * 4 * kMebibyte, {.category = "gradient"});
    maker.free_immediately(2, 8 * kMebibyte).free_immediately(3, step * 4 * kMebibyte).step(step);
  }
  return maker.finish();
}

TEST(OverTime, is_a_chart_of_steps_with_its_peak) {
  const model::Trace trace = three_steps();
  EXPECT_EQ(chart_of(trace, totals(trace, 24 * kMebibyte)),
            R"(Memory on cpu over time
                                  peak 24.0 MiB ▼
  24.0 MiB ┤                                    ████
           │                    ▅▅▅▅            ████
  18.0 MiB ┤      ▃▃▃           ████            ████▃▃▃▃
           │      ███           ████            ████████
  12.0 MiB ┤   ██████       ████████████    ████████████
           │   ██████▅▅▅    ████████████    ████████████
   6.0 MiB ┤▃▃▃█████████▃▃▃▃████████████▃▃▃▃████████████▃▃▃▃
           │████████████████████████████████████████████████
       0 B └┴───────────────┴───────────────┴───────────────
            step 1          2               3
)");
}

TEST(OverTime, colors_the_category_that_fills_most_of_a_character) {
  const model::Trace trace = three_steps();
  const std::string text = chart_of(trace, totals(trace, 24 * kMebibyte), {60, text::Color::kOn});
  EXPECT_THAT(text, HasSubstr("\x1b[38;5;32m■\x1b[0m parameter"));
  EXPECT_THAT(text, HasSubstr("\x1b[38;5;36m■\x1b[0m gradient"));
  EXPECT_THAT(text, HasSubstr("\x1b[38;5;172m■\x1b[0m activation"));
  EXPECT_THAT(text, Not(HasSubstr("optimizer_state")));
}

TEST(OverTime, marks_failures_and_names_what_follows_the_last_step) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  maker.alloc(1, 8 * kMebibyte).step(1).alloc(2, 8 * kMebibyte).step(2);
  maker.alloc(3, 8 * kMebibyte).event(model::Action::kOom, 0, 64 * kMebibyte);
  const model::Trace trace = maker.finish();
  report::DeviceReport device = totals(trace, 24 * kMebibyte);
  report::Oom failure;
  failure.event = 3;
  device.ooms = {failure};
  const std::string text = chart_of(trace, device);
  EXPECT_THAT(text, HasSubstr("out of memory ✕"));
  EXPECT_THAT(text, HasSubstr("step 1          2               after\n"));
  const std::string wide = chart_of(trace, device, {100, text::Color::kOff});
  EXPECT_THAT(wide, HasSubstr("after the last step\n"));
  failure.event = 0;
  device.ooms.insert(device.ooms.begin(), failure);
  EXPECT_THAT(chart_of(trace, device), HasSubstr("2 times out of memory ✕"));
}

TEST(OverTime, begins_at_the_baseline) {
  TraceMaker maker;
  maker.alloc(1, 8 * kMebibyte).free(1, 8 * kMebibyte);
  const model::Trace trace = maker.finish();
  EXPECT_THAT(chart_of(trace, totals(trace, 12 * kMebibyte, 4 * kMebibyte)),
              HasSubstr("peak 12.0 MiB"));
}

TEST(OverTime, is_empty_without_events_and_with_unknown_totals) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  const model::Trace nothing = maker.finish();
  EXPECT_THAT(chart_of(nothing, totals(nothing, 0)), IsEmpty());
  const model::Trace trace = three_steps();
  EXPECT_THAT(chart_of(trace, totals(trace, 24 * kMebibyte, -1)), IsEmpty());
  EXPECT_THAT(chart_of(trace, totals(trace, 0)), IsEmpty());
}

// No line is wider than the terminal, and no two labels touch, for any number of steps or events.
TEST(OverTime, fits_into_every_terminal) {
  for (const std::size_t count : {1U, 2U, 7U, 40U, 999U, 12'345U}) {
    for (const bool has_steps : {true, false}) {
      TraceMaker maker;
      for (std::size_t each = 0; each < count; ++each) {
        maker.alloc(each + 1, 3 * kMebibyte);
        if (has_steps) maker.step(each + 1);
      }
      const model::Trace trace = maker.finish();
      const auto peak_bytes = static_cast<std::int64_t>(count * 3 * kMebibyte);
      for (const std::size_t width : {60U, 79U, 200U}) {
        const std::string text =
            chart_of(trace, totals(trace, peak_bytes), {width, text::Color::kOff});
        ASSERT_THAT(text, StartsWith("Memory on cuda:0 over time\n"));
        EXPECT_EQ(std::ranges::count(text, '\n'), 12);
        for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
          EXPECT_LE(text::display_width(text.substr(at, text.find('\n', at) - at)), width);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::exporters::terminal
