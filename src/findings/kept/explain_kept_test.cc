// Tensors that a program keeps: batches and results, gradients that no optimizer
// clears, state of earlier optimizers, and memory left by an earlier backward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Steps that keep 4 MiB each: freed together every ten steps or, in a queue, one by one.
Case kept_outputs(bool is_queue) {
  Case c;
  const auto line = c.maker.stack({{"train.py", 9, "step"}});
  for (std::uint64_t step = 0; step < 25; ++step) {
    if (is_queue && step >= 10) c.maker.free(100 + step - 10, 4 * kMib);
    if (!is_queue && step > 0 && step % 10 == 0) {
      for (std::uint64_t i = step - 10; i < step; ++i) c.maker.free(100 + i, 4 * kMib);
    }
    c.maker.alloc_reported(100 + step, 4 * kMib,
                           {.category = "activation", .phase = Phase::kForward, .stack = line});
    c.maker.step(step + 1);
  }
  // At the end of the tenth step; or, with a queue, long after it filled up.
  c.peak_at_event = is_queue ? 10 + 3 * 14 - 1 : 9;
  c.peak_phase = "forward";
  return c;
}

TEST(ExplainKept, tensors_kept_until_the_end_of_an_epoch_are_named) {
  const auto found = kept_outputs(false).run(explain_kept);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "batches_kept");
  EXPECT_THAT(found[0].title, HasSubstr("Tensors that 9 earlier steps made"));
  EXPECT_THAT(found[0].title, HasSubstr("36.0 MiB of 40.0 MiB"));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("train.py:9 (step)"));
  EXPECT_EQ(found[0].saving_bytes(), 36 * kMib);
}

TEST(ExplainKept, a_queue_of_the_newest_tensors_is_not_reported) {
  EXPECT_THAT(kept_outputs(true).run(explain_kept), IsEmpty());
}

// Ten tensors of one line.
Case ten_tensors(const model::LastUse& use, const char* category, model::Phase phase) {
  Case c;
  c.maker.builder().uses_known();
  const auto line = c.maker.stack({{"data.py", 5, "load"}});
  for (std::uint64_t i = 0; i < 10; ++i) {
    c.maker.alloc_reported(1 + i, kMib * (1 + i % 2),
                           {.category = category,
                            .phase = phase,
                            .stack = line,
                            .autograd = model::Autograd::kOff,
                            .use = use});
  }
  c.maker.alloc_reported(90, 1, {.category = "activation", .phase = Phase::kForward});
  c.maker.begin_backward().alloc(91, 1).end_backward();
  c.peak_at_event = 10;
  return c;
}

constexpr std::uint8_t kGapOf64 = 7;

TEST(ExplainKept, data_that_waits_longer_than_a_step_is_a_mistake) {
  const auto found =
      ten_tensors({.unused_from = 12, .gap = kGapOf64}, "other", Phase::kData).run(explain_kept);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "batches_kept");
  EXPECT_THAT(found[0].title, HasSubstr("10 tensors that data.py:5 (load) made are 100.0%"));
  EXPECT_THAT(found[0].next_step(), HasSubstr("keep two of them instead of 10."));
  EXPECT_EQ(found[0].saving_bytes(), 12 * kMib);
}

// Another tensor, as large as all of them, is live later.
TEST(ExplainKept, data_whose_queue_saves_nothing_is_a_fact) {
  Case c = ten_tensors({.unused_from = 12, .gap = kGapOf64}, "other", Phase::kData);
  for (std::uint64_t i = 0; i < 10; ++i) c.maker.free(1 + i, kMib * (1 + i % 2));
  c.maker.alloc(92, 15 * kMib);
  const auto found = c.run(explain_kept);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "one_line_dominates");
}

TEST(ExplainKept, data_that_every_step_uses_is_a_fact) {
  const auto found =
      ten_tensors({.unused_from = 12, .gap = 1}, "other", Phase::kData).run(explain_kept);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "one_line_dominates");
}

// The outputs of a forward, which a later operator uses, or which none uses.
TEST(ExplainKept, results_are_a_mistake_only_if_no_operator_uses_them_again) {
  const auto found_with = [](std::uint32_t unused_from) {
    return ten_tensors({.unused_from = unused_from, .gap = kGapOf64}, "activation", Phase::kForward)
        .run(explain_kept);
  };
  EXPECT_THAT(found_with(12), IsEmpty());
  const auto found = found_with(10);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "batches_kept");
  EXPECT_THAT(found[0].next_step(), HasSubstr("A smaller batch changes nothing if"));
}

// Allocations in backward by the program's hooks and functions, and by torch.
TEST(ExplainKept, in_backward_only_the_programs_own_code_counts) {
  for (const std::string op : {"BackwardHookFunctionBackward", "MulBackward0"}) {
    Case c;
    const auto line = c.maker.stack({{"private.py", 5, "per_sample"}});
    for (std::uint64_t i = 0; i < 8; ++i) {
      c.maker.alloc_reported(
          1 + i, 4 * kMib,
          {.category = "activation_gradient", .phase = Phase::kBackward, .op = op, .stack = line});
    }
    EXPECT_THAT(c.run(explain_kept), SizeIs(op.ends_with("0") ? 0 : 1));
  }
}

// Six steps in which Net.head gets new gradients while Net.base keeps those of the first;
// `made_again`: the fourth step also makes new ones for Net.base.
Case unowned(bool made_again, bool has_state) {
  Case c;
  const auto base = c.maker.tensor("Net.base.weight");
  const auto head = c.maker.tensor("Net.head.weight");
  if (has_state) {
    c.maker.alloc_reported(3, 1,
                           {.category = "optimizer_state",
                            .phase = Phase::kOptimizer,
                            .tensor = c.maker.tensor("Net.base.weight.exp_avg")});
  }
  for (std::uint64_t step = 0; step < 6; ++step) {
    c.maker.begin_backward();
    if (made_again && step == 3) c.maker.free(1, 20 * kMib);
    if (step == 0 || (made_again && step == 3)) {
      c.maker.alloc_reported(1, 20 * kMib,
                             {.category = "gradient", .phase = Phase::kBackward, .tensor = base});
    }
    c.maker.alloc_reported(2, kMib,
                           {.category = "gradient", .phase = Phase::kBackward, .tensor = head});
    c.maker.end_backward().free(2, kMib);
  }
  c.maker.alloc(9, 1);
  return c;
}

// It comes among the facts, but the report must not say that nothing is wasted.
TEST(ExplainUnowned, a_mistake_that_costs_little_is_no_fact) {
  Case c = unowned(false, false);
  c.maker.alloc_reported(8, 300 * kMib, {.category = "other", .phase = Phase::kOther});
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gradients_kept");
  EXPECT_FALSE(found[0].is_fact);
}

TEST(ExplainUnowned, gradients_made_once_while_others_are_cleared_have_no_optimizer) {
  const auto found = unowned(false, false).run(explain_unowned);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gradients_kept");
  EXPECT_THAT(found[0].title, HasSubstr("no optimizer clears"));
  EXPECT_THAT(found[0].evidence[0],
              HasSubstr("20.0 MiB of them belong to 1 parameter of Net.base"));
  EXPECT_THAT(found[0].next_step(), HasSubstr("requires_grad_(False)"));
  EXPECT_EQ(found[0].saving_bytes(), 19 * kMib + 1);
}

TEST(ExplainUnowned, gradients_with_state_or_accumulated_have_an_optimizer) {
  EXPECT_THAT(unowned(true, false).run(explain_unowned), IsEmpty());
  EXPECT_THAT(unowned(false, true).run(explain_unowned), IsEmpty());
}

void add_state(Case& c, std::uint64_t address, std::uint64_t mib, const std::string& name) {
  c.maker.alloc_reported(
      address, mib * kMib,
      {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = c.maker.tensor(name)});
}

TEST(ExplainOptimizer, state_of_earlier_optimizers_is_named) {
  Case c;
  for (std::uint64_t i = 0; i < 4; ++i) add_state(c, 1 + i, 10, "Net.body.weight.exp_avg");
  const auto found = c.run(explain_optimizer);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), testing::StartsWith("Drop each optimizer"));
  EXPECT_EQ(found[0].saving_bytes(), 30 * kMib);
}

TEST(ExplainOptimizer, state_of_embeddings_is_named_with_their_module) {
  Case c;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = "Net.tables." + std::to_string(i) + ".weight";
    const auto weight = c.maker.tensor(name);
    c.maker.alloc_reported(10 + i, 10 * kMib, {.category = "parameter", .tensor = weight});
    c.maker.alloc_reported(20 + i, 10 * kMib,
                           {.category = "gradient",
                            .phase = Phase::kBackward,
                            .op = "EmbeddingBackward0",
                            .tensor = weight});
    add_state(c, 1 + i, 10, name + ".exp_avg");
  }
  const auto found = c.run(explain_optimizer);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("40.0 MiB of it belong to 4 parameters of Net.tables."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("sparse=True"));
  EXPECT_EQ(found[0].saving_bytes(), 40 * kMib);
}

TEST(ExplainActivations, rounds_with_create_graph_are_named_with_the_line_that_runs_them) {
  Case c;
  const auto line = c.maker.stack({{"net.py", 5, "Net.forward"}, {"attack.py", 9, "attack"}});
  for (std::uint64_t round = 0; round < 6; ++round) {
    c.maker.alloc_reported(10 + round, 3 * kMib,
                           {.layer = "Net.first",
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .stack = line});
    c.maker.begin_backward();
    c.maker.alloc_reported(
        30 + round, 2 * kMib,
        {.layer = "Net.first", .category = "activation_gradient", .phase = Phase::kBackward});
    c.maker.end_backward();
  }
  c.maker.alloc_reported(90, 8 * kMib, {.category = "parameter"});
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("repeated calls at attack.py:9 (attack)")));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("tensors of 6 forward passes are live")));
}

}  // namespace
}  // namespace plimsoll::findings
