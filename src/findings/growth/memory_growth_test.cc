// What memory_growth advises and promises, from the memory that is live at the peak.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/facts_case.h"
#include "tests/support/units.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using tests::kMib;

report::GrowthRow row_of(std::string key, double bytes_per_step) {
  report::GrowthRow row;
  row.key = std::move(key);
  row.bytes_per_step = row.low_bytes_per_step = row.high_bytes_per_step = bytes_per_step;
  row.grown_bytes = static_cast<std::int64_t>(8 * bytes_per_step);
  row.steps = 10;
  row.compared_steps = row.grown_steps = 8;
  row.survivors = 8;
  row.is_certain = true;
  row.boundary = "step";
  return row;
}

// A line leaves 1 MiB behind in each of ten steps, and twelve tensors after the last one, which it
// frees at the end if `is_freed`.
Findings with_last_evaluation(bool is_freed) {
  FactsCase c;
  const auto line = c.maker.stack({{"eval.py", 3, "evaluate"}});
  for (std::uint64_t i = 0; i < 22; ++i) {
    c.maker.alloc_reported(1 + i, kMib, {.category = "other", .stack = line});
    if (i < 10) c.maker.step(i + 1);
  }
  c.device().requested_active.peak_event = 21;
  if (is_freed) {
    for (std::uint64_t i = 10; i < 22; ++i) c.maker.free(1 + i, kMib);
  }
  c.report.tables.growth = {row_of("eval.py:3 (evaluate)", kMib)};
  c.report.tables.growth[0].line = "eval.py:3 (evaluate)";
  return c.run(memory_growth);
}

TEST(MemoryGrowth, promises_what_its_line_holds_at_the_peak_except_for_one_step) {
  const auto found = with_last_evaluation(false);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 21 * kMib);
  EXPECT_EQ(with_last_evaluation(true)[0].saving_bytes(), 10 * kMib)
      << "the last ones may be needed";
}

// A line leaves tensors of 8 bytes behind in each step.
Findings of_tiny_tensors(std::uint64_t a_step, std::uint64_t at_the_end) {
  FactsCase c;
  const auto line = c.maker.stack({{"train.py", 3, "main"}});
  c.maker.alloc_reported(1, 8, {.category = "other", .stack = line}).step(1);
  report::GrowthRow row = row_of("train.py:3 (main)", 8.0 * static_cast<double>(a_step));
  row.line = row.key;
  row.survivors = 8 * a_step;
  row.last_count = at_the_end;
  c.report.tables.growth = {std::move(row)};
  return c.run(memory_growth);
}

TEST(MemoryGrowth, in_number_of_tensors_is_reported_though_their_bytes_are_few) {
  const auto found = of_tiny_tensors(128, 1280);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].title, "Tensors on cuda:0 grow in number by 128 a step, to 1,280 at the end");
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kWarning);
  EXPECT_THAT(found[0].evidence[1], HasSubstr("925.0 KiB in all"));
  EXPECT_THAT(of_tiny_tensors(1, 128'000), SizeIs(1));
  EXPECT_THAT(of_tiny_tensors(5, 5'000), SizeIs(0)) << "scalars of a log";
}

// A line leaves 1 MiB behind in each of ten steps. In the ninth it also makes a tensor of 5 MiB,
// which it frees in the tenth if `is_replaced`, else after it. The tenth needs 5 MiB more.
Findings with_larger_tensor(bool is_replaced) {
  FactsCase c;
  const auto line = c.maker.stack({{"train.py", 3, "main"}});
  const tests::Reported where{.category = "other", .stack = line};
  for (std::uint64_t i = 0; i < 10; ++i) {
    c.maker.alloc_reported(1 + i, kMib, where);
    if (i == 8) c.maker.alloc_reported(100, 5 * kMib, where);
    if (i == 9) c.maker.alloc(101, 5 * kMib).free(101, 5 * kMib);
    if (i == 9 && is_replaced) c.maker.free(100, 5 * kMib);
    c.maker.step(i + 1);
  }
  if (!is_replaced) c.maker.free(100, 5 * kMib);
  c.report.tables.growth = {row_of("train.py:3 (main)", kMib)};
  c.report.tables.growth[0].line = "train.py:3 (main)";
  return c.run(memory_growth);
}

TEST(MemoryGrowth, what_lives_through_one_end_of_a_step_is_not_retained) {
  EXPECT_EQ(with_larger_tensor(true)[0].saving_bytes(), 9 * kMib);
  EXPECT_EQ(with_larger_tensor(false)[0].saving_bytes(), 14 * kMib);
}

// Each of ten steps puts a tensor into a list, which an operator reads after the last one, or not.
report::Finding of_list(bool is_read, bool has_steps) {
  FactsCase c;
  const auto line = c.maker.stack({{"train.py", 3, "main"}});
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::uint32_t unused_from = is_read ? 11 : i + 1;
    c.maker.alloc_reported(
        1 + i, kMib, {.category = "other", .stack = line, .use = {.unused_from = unused_from}});
    if (has_steps) c.maker.step(i + 1);
  }
  c.maker.alloc(100, 10 * kMib);
  c.report.tables.growth = {row_of("train.py:3 (main)", kMib)};
  c.report.tables.growth[0].line = "train.py:3 (main)";
  c.report.tables.growth_by_category = {row_of("other", kMib)};
  return c.run(memory_growth).at(0);
}

TEST(MemoryGrowth, of_a_collection_that_is_used_again_is_a_fact) {
  for (const bool has_steps : {true, false}) {
    const report::Finding used = of_list(true, has_steps);
    EXPECT_EQ(used.severity, report::FindingSeverity::kInfo);
    EXPECT_THAT(used.evidence, testing::Contains(HasSubstr("MiB again, later than")));
    EXPECT_THAT(used.next_step(), Not(HasSubstr("Free what")));
    const report::Finding unused = of_list(false, has_steps);
    EXPECT_NE(unused.severity, report::FindingSeverity::kInfo);
    EXPECT_THAT(unused.next_step(), HasSubstr("Free what"));
  }
}

// Backward leaves tensors behind: those of create_graph=True, or those that a checkpoint recomputes
// in it.
Findings left_by_backward_of(bool is_recomputed) {
  FactsCase c;
  const auto checkpoint =
      c.maker.stack({{"net.py", 9, "Net.forward"},
                     {"/venv/site-packages/torch/utils/checkpoint.py", 1150, "unpack_hook"},
                     {"train.py", 20, "main"}});
  const auto plain = c.maker.stack({{"net.py", 9, "Net.forward"}, {"train.py", 20, "main"}});
  for (std::uint64_t i = 0; i < 10; ++i) {
    c.maker.alloc_reported(1 + i, kMib,
                           {.category = "activation",
                            .phase = Phase::kForward,
                            .stack = plain,
                            .autograd = model::Autograd::kBuilt});
    c.maker.begin_backward();
    c.maker.alloc_reported(100 + i, kMib,
                           {.category = "activation_gradient",
                            .phase = Phase::kBackward,
                            .op = is_recomputed ? "aten::relu" : "ReluBackward0",
                            .forward_op = is_recomputed ? "" : "aten::relu",
                            .stack = is_recomputed ? checkpoint : plain});
    c.maker.end_backward();
    c.maker.step(i + 1);
  }
  c.device().requested_active.peak_event = 19;
  c.report.tables.growth = {row_of("net.py:9 (Net.forward)", 1.5 * kMib)};
  c.report.tables.growth[0].line = "net.py:9 (Net.forward)";
  c.report.tables.growth_by_category = {row_of("activation_gradient", kMib)};
  return c.run(memory_growth);
}

TEST(MemoryGrowth, what_a_checkpoint_recomputes_is_no_graph_of_a_backward) {
  const auto of_graph = left_by_backward_of(false);
  ASSERT_THAT(of_graph, SizeIs(1));
  EXPECT_THAT(of_graph[0].next_step(), HasSubstr("create_graph=True"));
  const auto recomputed = left_by_backward_of(true);
  ASSERT_THAT(recomputed, SizeIs(1));
  EXPECT_THAT(recomputed[0].next_step(),
              AllOf(HasSubstr("saved_tensors_hooks"), Not(HasSubstr("create_graph"))));
}

// A step leaves the result of a forward and its target behind, or several activations.
report::Finding of_results(std::uint64_t activations_a_step) {
  FactsCase c;
  c.report.tables.growth = {row_of("net.py:9 (Net.forward)", 2 * kMib),
                            row_of("train.py:3 (main)", kMib)};
  for (report::GrowthRow& row : c.report.tables.growth) row.line = row.key;
  c.report.tables.growth_by_category = {row_of("activation", 2 * kMib), row_of("input", kMib)};
  c.report.tables.growth_by_category[0].survivors = 8 * activations_a_step;
  return c.run(memory_growth).at(0);
}

TEST(MemoryGrowth, one_activation_a_step_is_a_result_without_its_graph) {
  EXPECT_THAT(of_results(1).next_step(), Not(HasSubstr("and the graphs")));
  EXPECT_THAT(of_results(3).next_step(), HasSubstr("and the graphs"));
}

report::Finding of_graphs(std::uint64_t grown_steps) {
  FactsCase c;
  c.report.tables.growth = {row_of("net.py:9 (Net.forward)", 2 * kMib)};
  c.report.tables.growth[0].survivors = 30;
  c.report.tables.growth[0].grown_steps = grown_steps;
  c.report.tables.growth_by_category = {row_of("activation", 2 * kMib)};
  return c.run(memory_growth).at(0);
}

TEST(MemoryGrowth, exceptions_may_hold_graphs_that_only_some_steps_leave) {
  EXPECT_THAT(of_graphs(8).next_step(), Not(HasSubstr("exception")));
  EXPECT_THAT(of_graphs(4).next_step(), HasSubstr("store str(exception)"));
}

}  // namespace
}  // namespace plimsoll::findings
