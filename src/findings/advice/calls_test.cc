// Code that runs several times: several forward passes before a backward, and double backwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::LifetimeFlags;
using model::Phase;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

void forward(Case& c, std::uint64_t address, const std::string& layer, model::StackId stack) {
  c.maker.alloc_reported(address, 2 * kMib,
                         {.layer = layer,
                          .category = "activation",
                          .phase = Phase::kForward,
                          .op = "aten::dropout",
                          .flags = LifetimeFlags::kSavedForBackward,
                          .stack = stack});
}

enum class Rounds { kNone, kSeparate, kMarked };

// Six tensors of one operator in one layer, made by one pass of the model or by six. The backward
// after the peak frees them.
Findings found_with(Rounds rounds) {
  Case c;
  const auto line = c.maker.stack({{"net.py", 5, "Net.forward"}, {"train.py", 9, "main"}});
  for (std::uint64_t i = 0; i < 6; ++i) {
    if (rounds == Rounds::kMarked) c.maker.enter_layer("Net");
    forward(c, 10 + i, "Net.first", line);
    if (rounds == Rounds::kMarked) c.maker.exit_layer("Net");
    if (rounds != Rounds::kSeparate) continue;  // a loss
    c.maker.alloc_reported(30 + i, 512,
                           {.category = "activation", .phase = Phase::kForward, .stack = line});
  }
  c.peak_at_event = rounds == Rounds::kSeparate ? 11 : 5;
  c.maker.begin_backward();
  for (std::uint64_t i = 0; i < 6; ++i) c.maker.free_immediately(10 + i, 2 * kMib);
  c.maker.end_backward();
  return c.run(explain_activations);
}

TEST(Rounds, are_several_forward_passes_before_one_backward) {
  for (const Rounds rounds : {Rounds::kSeparate, Rounds::kMarked}) {
    const Findings found = found_with(rounds);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0].next_step(),
                HasSubstr("If the calls at train.py:9 (main) are independent, call backward()"));
    EXPECT_THAT(found[0].evidence, Contains(HasSubstr("tensors of 6 forward passes are live")));
  }
}

TEST(Rounds, several_tensors_of_one_operator_in_one_pass_are_not_rounds) {
  const Findings found = found_with(Rounds::kNone);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), Not(HasSubstr("rounds")));
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("repeated calls"))));
}

// A tensor that one backward makes is live until a later backward, or longer.
Findings left_by_backward(bool is_freed_by_backward) {
  Case c;
  const auto line = c.maker.stack({{"net.py", 5, "Net.forward"}, {"train.py", 9, "main"}});
  forward(c, 1, "Net.first", line);
  c.maker.begin_backward();
  c.maker.alloc_reported(
      2, 8 * kMib,
      {.layer = "Net.first", .category = "activation_gradient", .phase = Phase::kBackward});
  c.maker.end_backward();
  forward(c, 3, "Net.first", line);
  c.peak_at_event = 2;
  c.maker.begin_backward().alloc_reported(4, 512, {.phase = Phase::kBackward});
  if (is_freed_by_backward) c.maker.free_immediately(2, 8 * kMib);
  c.maker.alloc_reported(5, 512, {.phase = Phase::kBackward}).end_backward();
  c.maker.alloc(6, 512);
  if (!is_freed_by_backward) c.maker.free_immediately(2, 8 * kMib);
  return c.run(explain_activations);
}

TEST(DoubleBackward, uses_what_an_earlier_backward_has_made) {
  const Findings found = left_by_backward(true);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Pass create_graph=True only if"));
}

// Even without a second backward, the graph of the first shows that it was kept.
TEST(DoubleBackward, may_never_come) {
  Case c;
  const auto line = c.maker.stack({{"net.py", 5, "Net.forward"}, {"train.py", 9, "main"}});
  forward(c, 1, "Net.first", line);
  forward(c, 2, "Net.second", line);
  const auto call = c.maker.stack(
      {{"/v/site-packages/torch/autograd/__init__.py", 30, "grad"}, {"train.py", 10, "main"}});
  c.maker.alloc_reported(9, 4, {.stack = call}).begin_backward();
  c.maker.alloc_reported(
      3, 4 * kMib,
      {.layer = "Net.first", .category = "activation_gradient", .phase = Phase::kBackward});
  c.maker.end_backward().alloc(4, 512);
  const Findings found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(),
              HasSubstr("Pass create_graph=True at train.py:10 (main) only if"));
}

TEST(DoubleBackward, is_not_assumed_for_a_gradient_that_the_program_keeps) {
  const Findings found = left_by_backward(false);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), Not(HasSubstr("create_graph")));
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("create_graph"))));
}

}  // namespace
}  // namespace plimsoll::findings
