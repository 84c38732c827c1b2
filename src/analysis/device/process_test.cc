#include "analysis/device/process.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/device/device.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::device {
namespace {

using tests::TraceMaker;

constexpr model::Device kTheCpu{model::DeviceType::kCpu, -1};
constexpr std::int64_t kTensorBytes = 100;

// What the process has had at most after a number of steps, and what tensors have then.
struct At {
  std::uint64_t steps = 0;
  std::uint64_t highest = 0;
  std::uint64_t tensors = 0;
  std::uint64_t free_heap = 0;
};

report::DeviceReport report_of(const std::vector<At>& readings, bool has_steps = true) {
  TraceMaker maker;
  maker.on(kTheCpu);
  std::uint64_t steps = 0;
  for (const At& at : readings) {
    for (; steps < at.steps; ++steps) {
      maker.alloc(64, kTensorBytes).free(64, kTensorBytes);
      if (has_steps) maker.step(steps);
    }
    if (at.tensors > 0) maker.alloc(128, at.tensors).free(128, at.tensors);
    model::DeviceReading reading{.device = kTheCpu, .time_ns = maker.time_ns()};
    reading.figures.total_bytes = reading.figures.free_bytes = 1 << 20;
    reading.figures.own_bytes = at.highest - 1;
    reading.figures.highest_bytes = at.highest;
    reading.figures.free_heap_bytes = at.free_heap;
    maker.builder().add_reading(std::move(reading));
  }
  return tests::run_passes(maker.finish(), tests::passes(make(), tests::timeline_pass()))
      .devices[0];
}

TEST(Process, its_start_its_end_and_its_highest_are_reported) {
  const report::DeviceReport report = report_of({{0, 1000}, {3, 3000}, {5, 3500}});
  EXPECT_EQ(report.process_start_bytes, 999u);
  EXPECT_EQ(report.process_end_bytes, 3499u);
  EXPECT_EQ(report.process_highest_bytes, 3500u);
  EXPECT_EQ(report.process_warm_bytes, 3000u);
}

TEST(Process, that_grows_in_every_step_grows_from_the_third_step_on) {
  const report::DeviceReport report =
      report_of({{0, 1000}, {3, 3000}, {6, 3300}, {12, 3900}, {20, 4700}});
  EXPECT_EQ(report.process_growth_bytes, 1700u);
  EXPECT_TRUE(report.is_process_growing);
  EXPECT_TRUE(report_of({{0, 1000}, {3, 3000}, {6, 3300}, {8, 3500}}).is_process_growing);
}

TEST(Process, growth_of_tensors_is_not_growth_of_the_process) {
  EXPECT_EQ(report_of({{3, 3000}, {6, 3600}, {12, 4200, 1000}, {20, 4700}}).process_growth_bytes,
            800u);
  EXPECT_EQ(report_of({{3, 3000}, {6, 3900, 1000}}).process_growth_bytes, std::nullopt);
}

TEST(Process, what_the_c_library_keeps_is_not_growth) {
  EXPECT_EQ(
      report_of({{3, 3000, 0, 500}, {6, 3600, 0, 900}, {12, 4200, 0, 1600}}).process_growth_bytes,
      100u);
  EXPECT_EQ(report_of({{3, 3000, 0, 900}, {6, 3100, 0, 500}}).process_growth_bytes, 100u)
      << "tensors may have used it again";
}

TEST(Process, that_grows_once_or_for_a_while_does_not_go_on) {
  const std::vector<At> late_import = {{0, 1000}, {3, 3000}, {6, 3000}, {12, 4000}, {20, 4010}};
  EXPECT_EQ(report_of(late_import).process_growth_bytes, 1010u);
  EXPECT_FALSE(report_of(late_import).is_process_growing);
  const std::vector<At> full_cache = {{3, 3000}, {6, 3400}, {12, 3900}, {24, 4000}, {40, 4000}};
  EXPECT_FALSE(report_of(full_cache).is_process_growing);
  const std::vector<At> full_late = {{3, 3000}, {6, 3120}, {12, 3360}, {24, 3840}, {40, 3840}};
  EXPECT_FALSE(report_of(full_late).is_process_growing) << "full after the half of the steps";
}

TEST(Process, without_steps_has_no_growth) {
  const report::DeviceReport report = report_of({{0, 1000}, {0, 9000}});
  EXPECT_EQ(report.process_warm_bytes, std::nullopt);
  EXPECT_EQ(report.process_growth_bytes, std::nullopt);
}

TEST(Process, growth_that_is_freed_when_the_program_returns_is_growth) {
  const report::DeviceReport report =
      report_of({{0, 1000}, {3, 3000}, {6, 3300}, {12, 3900}, {20, 4700, 0, 1500}});
  EXPECT_EQ(report.process_growth_bytes, 900u);
  EXPECT_TRUE(report.is_process_growing);
}

TEST(Process, of_a_program_without_steps_is_read_after_calls_of_its_models) {
  const auto grows = [](const std::vector<At>& readings) {
    return report_of(readings, false).is_process_growing;
  };
  EXPECT_TRUE(grows({{0, 1000}, {3, 3000}, {6, 3300}, {12, 3900}, {20, 4700}}));
  EXPECT_FALSE(grows({{0, 1000}, {3, 3000}, {6, 3300}, {12, 3900}, {24, 3900}, {40, 3910}}));
  EXPECT_FALSE(grows({{0, 1000}, {3, 3000}, {6, 3000}, {12, 4000}, {20, 4010}}));
}

}  // namespace
}  // namespace plimsoll::analysis::device
