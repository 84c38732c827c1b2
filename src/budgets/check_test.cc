#include "budgets/check.h"

#include <gtest/gtest.h>

namespace plimsoll::budgets {
namespace {

Result<std::vector<CheckedLimit>> check_unused(std::int64_t limit_bytes, const Measurement& run) {
  const BudgetFile file{.path = "b.yaml"};
  Budget budget;
  budget.name = "net";
  budget.limits.push_back({.kind = LimitKind::kUnusedAtPeak, .bytes = limit_bytes, .line = 3});
  const Runs runs{.each = {run}, .digest = run.digest};
  return check_limits(file, budget, runs, nullptr);
}

Measurement measurement() {
  Measurement run;
  run.digest.points.push_back({.device = "cpu", .name = "peak", .bytes = 100});
  run.unused.push_back(
      {.device = "cpu", .bytes = 40, .text = "No operator uses it again.", .line = "a.py:1 (f)"});
  return run;
}

TEST(Check, memory_that_is_not_used_again_is_compared_with_its_limit) {
  const auto met = check_unused(40, measurement());
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_EQ(met->at(0).verdict, Verdict::kMet);
  EXPECT_EQ(met->at(0).bytes, 40);
  const auto exceeded = check_unused(39, measurement());
  EXPECT_EQ(exceeded->at(0).verdict, Verdict::kExceeded);
  const CheckFinding& finding = exceeded->at(0).findings.at(0);
  EXPECT_EQ(finding.title, "no operator uses 40 B at the peak on cpu again, and the limit is 39 B");
  EXPECT_EQ(finding.evidence.back(), "Most of it: a.py:1 (f).");
}

TEST(Check, a_recording_without_uses_is_not_judged_by_that_limit) {
  Measurement run = measurement();
  run.unused.clear();
  const auto checked = check_unused(0, run);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message,
            "b.yaml:3: net: unused_at_peak: no uses of memory were recorded on cpu; record in the "
            "mode full with --uses always");
}

TEST(Check, a_peak_that_is_mostly_unknown_is_not_judged_by_that_limit) {
  Measurement run = measurement();
  run.unused[0].peak_bytes = 100;
  run.unused[0].unknown_bytes = 50;
  EXPECT_TRUE(check_unused(40, run));
  run.unused[0].unknown_bytes = 51;
  run.unused[0].is_sampled = true;
  const auto checked = check_unused(40, run);
  ASSERT_FALSE(checked);
  EXPECT_EQ(
      checked.error().message,
      "b.yaml:3: net: unused_at_peak: it is unknown whether operators use 51 B of the peak of "
      "100 B on cpu again; record with --uses always");
  EXPECT_EQ(check_unused(39, run)->at(0).verdict, Verdict::kExceeded);
  EXPECT_EQ(check_unused(91, run)->at(0).verdict, Verdict::kMet);
}

}  // namespace
}  // namespace plimsoll::budgets
