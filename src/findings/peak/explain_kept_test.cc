// Tensors that a program keeps: for an epoch, many from one line, gradients that no optimizer
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

TEST(ExplainEpoch, tensors_kept_until_the_end_of_an_epoch_are_named) {
  const auto found = kept_outputs(false).run(explain_epoch);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "batches_kept");
  EXPECT_THAT(found[0].title, HasSubstr("Tensors that 9 earlier steps made"));
  EXPECT_THAT(found[0].title, HasSubstr("36.0 MiB of 40.0 MiB"));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("train.py:9 (step)"));
  EXPECT_EQ(found[0].saving_bytes(), 36 * kMib);
}

TEST(ExplainEpoch, a_queue_of_the_newest_tensors_is_not_reported) {
  EXPECT_THAT(kept_outputs(true).run(explain_epoch), IsEmpty());
}

TEST(ExplainMany, many_tensors_of_one_line_outside_the_model_are_named) {
  for (const char* category : {"other", "activation"}) {
    Case c;
    const auto line = c.maker.stack({{"evolve.py", 5, "noise"}});
    for (std::uint64_t i = 0; i < 20; ++i) {
      c.maker.alloc_reported(
          1 + i, kMib * (1 + i % 2),
          {.category = category, .phase = Phase::kOther, .op = "aten::randn_like", .stack = line});
    }
    c.maker.alloc_reported(90, 1, {.category = "activation", .phase = Phase::kForward});
    const auto found = c.run(explain_many);
    if (std::string_view(category) == "activation") {
      EXPECT_THAT(found, IsEmpty()) << "a line of a model runs over layers";
      continue;
    }
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].id, "one_line_dominates");
    EXPECT_THAT(found[0].title, HasSubstr("20 tensors of one line fill 100.0%"));
    EXPECT_THAT(found[0].title, HasSubstr("evolve.py:5 (noise)"));
  }
}

// Outputs of a teacher, which no backward uses; or activations, which the last backward does use.
TEST(ExplainMany, outputs_of_many_forwards_that_no_backward_uses_are_named) {
  for (const bool are_used : {false, true}) {
    Case c;
    const auto line = c.maker.stack({{"teach.py", 5, "forward"}});
    for (std::uint64_t i = 0; i < 20; ++i) {
      c.maker.alloc_reported(1 + i, kMib,
                             {.layer = "Net.head",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .stack = line});
    }
    c.peak_at_event = 19;
    c.peak_phase = "forward";
    c.maker.begin_backward();
    for (std::uint64_t i = 0; are_used && i < 20; ++i) c.maker.free(1 + i, kMib);
    c.maker.alloc(90, 1).end_backward();
    const auto found = c.run(explain_many);
    ASSERT_THAT(found, SizeIs(are_used ? 0 : 1));
    if (are_used) continue;
    EXPECT_THAT(found[0].title, HasSubstr("20 tensors of one line fill 100.0%"));
    EXPECT_THAT(found[0].evidence.back(), HasSubstr("no backward uses"));
  }
}

// Allocations in backward by the program's hooks and functions, and by torch.
TEST(ExplainMany, in_backward_only_the_programs_own_code_counts) {
  for (const std::string op : {"BackwardHookFunctionBackward", "MulBackward0"}) {
    Case c;
    const auto line = c.maker.stack({{"private.py", 5, "per_sample"}});
    for (std::uint64_t i = 0; i < 8; ++i) {
      c.maker.alloc_reported(
          1 + i, 4 * kMib,
          {.category = "activation_gradient", .phase = Phase::kBackward, .op = op, .stack = line});
    }
    EXPECT_THAT(c.run(explain_many), SizeIs(op.ends_with("0") ? 0 : 1));
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
