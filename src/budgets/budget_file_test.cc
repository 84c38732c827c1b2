#include "budgets/budget_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::budgets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& yaml) {
  const auto file = parse_budgets(yaml, "b.yaml");
  return file ? "no error" : file.error().message;
}

TEST(BudgetFile, every_key_is_read) {
  const auto file = parse_budgets(R"(
net:
  run: train.py --steps 6
  baseline: budgets/net.json
  peak: 48 MB
  may_grow: 0.5 %
  by_category: {optimizer_state: 6.4 MiB}
  by_layer: {"*.attention": 8 MiB}
  growth_per_step: 0
  findings: [gradients_kept]
ranks:
  recording: build/rank*.plim
  peak: {cpu: 1 MiB, "cuda:0": 2 GiB}
  findings: none
)",
                                  "b.yaml");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->budgets.size(), 2U);
  const Budget& net = file->budgets[0];
  EXPECT_EQ(net.name, "net");
  EXPECT_EQ(net.line, 2);
  EXPECT_EQ(net.run, "train.py --steps 6");
  EXPECT_EQ(net.baseline, "budgets/net.json");
  EXPECT_EQ(net.may_grow.of(1000), 5);
  ASSERT_EQ(net.limits.size(), 4U);
  EXPECT_EQ(net.limits[0].bytes, 48 << 20);
  EXPECT_EQ(net.limits[0].line, 5);
  EXPECT_EQ(net.limits[1].name, "optimizer_state");
  EXPECT_EQ(net.limits[2].name, "*.attention");
  EXPECT_EQ(net.limits[3].kind, LimitKind::kGrowth);
  EXPECT_THAT(*net.allowed_findings, ElementsAre("gradients_kept"));
  const Budget& ranks = file->budgets[1];
  EXPECT_EQ(ranks.recording, "build/rank*.plim");
  EXPECT_EQ(ranks.limits[1].name, "cuda:0");
  EXPECT_TRUE(ranks.allowed_findings->empty());
}

TEST(BudgetFile, errors_name_the_line_and_the_key) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "b.yaml: the file has no budget; write a name"},
      {"- a", "b.yaml:1:1: this is not a mapping of names to budgets"},
      {"net: 5", "b.yaml:1:6: net: this is not a mapping; give run or recording"},
      {"net: {run: t.py, peek: 1}", "b.yaml:1:18: net: unknown key \"peek\"; did you mean peak?"},
      {"net: {run: t.py, zzzzzzzz: 1}",
       "net: unknown key \"zzzzzzzz\"; the keys are run, recording"},
      {"net: {run: t.py, peak: 1, peak: 2}", "net: duplicate key \"peak\", first on line 1"},
      {"net: {run: t.py, peak: 1}\nnet: {run: t.py, peak: 1}",
       "b.yaml:2:1: duplicate key \"net\", first on line 1"},
      {"net: {run: t.py, peak: 48 XB}",
       "b.yaml:1:24: net.peak: \"48 XB\" is not a size; write bytes, or a number with KiB"},
      {"net: {run: t.py, peak: 8388607 TiB}",
       "net.peak: \"8388607 TiB\" is too large; the largest size is 8388606 TiB"},
      {"\"a,b\": {run: t.py, peak: 1}", "a,b: a name without a comma is needed"},
      {"net: {run: t.py, peak: [1]}", "net.peak: this is not a size"},
      {"net: {run: t.py, peak: {}}", "net.peak: this has no limits"},
      {"net: {run: t.py, growth_per_step: fast}", "net.growth_per_step: \"fast\" is not a size"},
      {"net: {run: t.py, by_category: {activations: 1}}",
       "net.by_category.activations: unknown category; did you mean activation?"},
      {"net: {run: t.py, by_layer: 5}", "net.by_layer: this is not a mapping of names to sizes"},
      {"net: {run: t.py, baseline: b, may_grow: 5.00001 %}", "net.may_grow: \"5.00001 %\" is not"},
      {"net: {run: t.py, baseline: b, may_grow: -5 %}", "is not a percentage of 0 to 1000 %"},
      {"net: {run: t.py, baseline: b, may_grow: \"%\"}", "is not a percentage"},
      {"net: {run: t.py, peak: 1, may_grow: 5}", "net: may_grow needs a baseline"},
      {"net: {run: t.py, findings: all}", "net.findings: write none, or a list"},
      {"net: {run: t.py, findings: [chrun]}", "unknown finding \"chrun\"; did you mean churn?"},
      {"net: {run: t.py}", "net: the budget has no limit; add peak"},
      {"net: {peak: 1}", "net: give run: SCRIPT, or recording: FILES"},
      {"net: {run: t.py, recording: x, peak: 1}", "net: give run or recording, not both"},
      {"net: {run: \"t.py 'a\", peak: 1}", "net.run: a quote is not closed"},
      {"net: {run: \"  \", peak: 1}", "net.run: the command line is empty"},
      {"a: {run: t.py, baseline: b.json}\nb: {run: t.py, baseline: ./b.json}",
       "b.yaml:2: b.baseline: ./b.json is also the baseline of a"},
      {"net: {run: t.py, peak: 1", "invalid YAML"},
      {"net: !include x", "invalid YAML: the tag"},
      {"net: &a [*a]", "b.yaml:1:"},
  };
  for (const auto& [yaml, error] : cases) EXPECT_THAT(error_of(yaml), HasSubstr(error)) << yaml;
}

TEST(BudgetFile, a_budget_can_override_merged_keys) {
  const auto file =
      parse_budgets("a: &usual {run: t.py, peak: 1}\nb: {<<: *usual, peak: 2}\n", "b.yaml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->budgets[1].run, "t.py");
  EXPECT_EQ(file->budgets[1].limits[0].bytes, 2);
}

TEST(BudgetFile, memory_that_is_not_used_again_can_be_limited) {
  const auto file = parse_budgets("a: {run: t.py, unused_at_peak: 1 MiB}\n", "b.yaml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->budgets[0].limits[0].kind, LimitKind::kUnusedAtPeak);
  EXPECT_EQ(file->budgets[0].limits[0].bytes, 1 << 20);
}

TEST(BudgetFile, percentages_round_down_and_do_not_overflow) {
  const Allowance half{.millionths = 5000};  // 0.5 %
  EXPECT_EQ(half.of(0), 0);
  EXPECT_EQ(half.of(199), 0);
  EXPECT_EQ(half.of(200), 1);
  EXPECT_EQ(half.of(std::int64_t{1} << 60), (std::int64_t{1} << 60) / 200);
  EXPECT_GT(Allowance{.millionths = 10'000'000}.of(std::int64_t{1} << 60), std::int64_t{1} << 62);
}

TEST(BudgetFile, command_lines_are_split_as_in_a_shell) {
  EXPECT_THAT(*split_words(R"( a  "b c" 'd "e' f\ g "h\"i\\" '' $X;* )"),
              ElementsAre("a", "b c", "d \"e", "f g", "h\"i\\", "", "$X;*"));
  EXPECT_EQ(split_words("a 'b"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::budgets
