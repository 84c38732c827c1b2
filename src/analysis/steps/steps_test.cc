#include "analysis/steps/steps.h"

#include <map>

#include <gtest/gtest.h>

#include "model/live_set.h"
#include "model/steps.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::steps {
namespace {

using report::StepRow;
using tests::TraceMaker;

std::vector<StepRow> run(const model::Trace& trace) {
  return tests::run_passes(trace, tests::passes(make())).tables.steps;
}

TEST(Steps, each_step_has_its_peak_its_end_and_its_categories) {
  TraceMaker maker;
  maker
      .alloc_reported(1, 100, {.category = "parameter"})  // 0
      .alloc_reported(2, 40, {.category = "activation"})  // 1
      .free(2, 40)                                        // 2, 3
      .step(0)
      .alloc_reported(3, 30, {.category = "activation"})       // 4
      .alloc_reported(4, 20, {.category = "optimizer_state"})  // 5
      .free(3, 30)                                             // 6, 7
      .at(5'000'000)
      .step(1)
      .step(2)
      .alloc(5, 7);  // 8
  const auto rows = run(maker.finish());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].step, 0u);
  EXPECT_EQ(rows[0].first_event, 0u);
  EXPECT_EQ(rows[0].event_count, 4u);
  EXPECT_EQ(rows[0].peak_bytes, 140u);
  EXPECT_EQ(rows[0].peak_event, 1u);
  EXPECT_EQ(rows[0].end_bytes, 100u);
  EXPECT_EQ(rows[0].allocations, 2u);
  EXPECT_EQ(rows[0].allocated_bytes, 140u);
  ASSERT_EQ(rows[0].categories.size(), 2u);
  EXPECT_EQ(rows[0].categories[0].category, "activation");
  EXPECT_EQ(rows[0].categories[0].end_bytes, 0u);
  EXPECT_EQ(rows[0].categories[0].peak_bytes, 40u);
  EXPECT_EQ(rows[0].categories[1].end_bytes, 100u);

  EXPECT_EQ(rows[1].peak_bytes, 150u);
  EXPECT_EQ(rows[1].peak_event, 5u);
  EXPECT_EQ(rows[1].end_bytes, 120u);
  EXPECT_EQ(rows[1].end_time_ns, 5'000'000);
  EXPECT_EQ(rows[2].event_count, 0u) << "two marks, one after the other";
  EXPECT_EQ(rows[2].peak_bytes, 120u);
  EXPECT_FALSE(rows[2].peak_event.has_value());
  EXPECT_FALSE(rows[3].is_complete);
  EXPECT_EQ(rows[3].step, 3u);
  EXPECT_EQ(rows[3].end_bytes, 127u);
  EXPECT_FALSE(rows[3].end_time_ns.has_value());
}

TEST(Steps, without_marks_there_are_no_rows) {
  TraceMaker maker;
  maker.alloc(1, 100);
  EXPECT_TRUE(run(maker.finish()).empty());
}

TEST(Steps, only_the_last_of_very_many_steps_are_reported) {
  TraceMaker maker;
  for (std::uint64_t step = 0; step < 10'500; ++step) {
    maker.alloc_reported(step + 1, 1, {.category = "other"}).step(step);
  }
  const auto rows = run(maker.finish());
  ASSERT_EQ(rows.size(), 10'000u);
  EXPECT_EQ(rows.front().step, 500u);
  EXPECT_EQ(rows.front().end_bytes, 501u);
  EXPECT_EQ(rows.front().allocations, 1u);
  EXPECT_EQ(rows.back().end_bytes, 10'500u);
}

struct Slow {
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint64_t> by_category;
};

Slow slow_live(const model::Trace& trace, std::int64_t event) {
  const auto& device = trace.devices.at(0);
  Slow slow;
  for (const auto row : live_set(device, model::Liveness::kActive, event)) {
    const std::uint64_t size = trace.size_bytes(device, row);
    const std::string category(trace.strings[trace.category(device, row)]);
    slow.bytes += size;
    slow.by_category[category.empty() ? "unknown" : category] += size;
  }
  return slow;
}

TEST(Steps, random_traces_agree_with_the_definitions_and_categories_always_sum) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto trace =
        tests::random_trace({.seed = seed,
                             .events = 200,
                             .reporting = tests::RandomTraceOptions::Reporting::kEverything});
    const auto rows = run(trace);
    const auto ends = model::step_ends(trace, trace.devices.at(0));
    ASSERT_GE(rows.size(), ends.size());
    std::int64_t first = -1;
    for (const StepRow& row : rows) {
      SCOPED_TRACE("step " + std::to_string(row.step));
      const auto last = static_cast<std::int64_t>(row.first_event + row.event_count) - 1;
      const Slow end = slow_live(trace, last);
      EXPECT_EQ(row.end_bytes, end.bytes);
      std::uint64_t peak = 0;
      for (std::int64_t event = first; event <= last; ++event) {
        peak = std::max(peak, slow_live(trace, event).bytes);
      }
      EXPECT_EQ(row.peak_bytes, peak);
      const Slow at_peak =
          slow_live(trace, row.peak_event ? static_cast<std::int64_t>(*row.peak_event) : first);
      EXPECT_EQ(at_peak.bytes, peak);
      std::uint64_t end_sum = 0;
      std::uint64_t peak_sum = 0;
      for (const auto& each : row.categories) {
        EXPECT_EQ(each.end_bytes,
                  end.by_category.contains(each.category) ? end.by_category.at(each.category) : 0);
        end_sum += each.end_bytes;
        peak_sum += each.peak_bytes;
      }
      EXPECT_EQ(end_sum, row.end_bytes);
      EXPECT_EQ(peak_sum, row.peak_bytes);
      first = last;
    }
  }
}

}  // namespace
}  // namespace plimsoll::analysis::steps
