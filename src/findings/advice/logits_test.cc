// The logits of a cross entropy: which recordings show them, and the advice for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

struct Spelling {
  std::string_view maker = "aten::linear";
  std::string_view loss = "aten::cross_entropy_loss";
  std::string_view after = {};   // an operator between the loss and the backward
  std::uint64_t scores_mib = 0;  // of an attention
};

// A language model that computes its loss in forward: logits, a copy to float32, a copy without the
// last position, and the loss, each on its own line.
Findings of_language_model(const Spelling& made) {
  Case c;
  const auto stack = [&](std::uint32_t line) {
    return c.maker.stack({{"model.py", line, "Net.forward"}, {"train.py", 9, "main"}});
  };
  const auto add = [&](std::uint64_t address, std::uint64_t bytes, std::string_view op,
                       std::uint32_t line) {
    c.maker.alloc_reported(address, bytes,
                           {.layer = line == 3 ? "Net.head" : "Net",
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = op,
                            .stack = stack(line)});
  };
  constexpr std::uint64_t wide = 32;
  c.maker.alloc_reported(1, 4 * kMib, {.category = "parameter"});
  if (made.scores_mib > 0) {
    add(8, made.scores_mib * kMib, "aten::bmm", 2);
    add(9, made.scores_mib * kMib, "aten::softmax", 2);
  }
  add(2, 16 * kMib, made.maker, 3);
  add(3, wide * kMib, "aten::to", 4);
  c.maker.free_immediately(2, 16 * kMib);
  add(4, wide * kMib - 4096, "aten::contiguous", 5);
  add(5, wide * kMib - 4096, made.loss, 6);
  if (!made.after.empty()) add(6, 4, made.after, 6);
  c.maker.begin_backward();
  c.maker.alloc_reported(7, 4, {.category = "gradient", .phase = Phase::kBackward});
  return c.run(explain_activations);
}

TEST(Logits, of_a_loss_inside_forward_are_to_be_computed_in_chunks) {
  const auto found = of_language_model({});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("are the logits that Net.head makes, their copies and "
                                 "gradients, and the loss at model.py:6 (Net.forward)")));
  EXPECT_THAT(steps_text(found[0]),
              AllOf(HasSubstr("Compute Net.head and the loss at model.py:6 (Net.forward) in chunks "
                              "of the positions, each through torch.utils.checkpoint"),
                    HasSubstr("fused linear cross entropy")));
  EXPECT_EQ(found[0].saving_bytes(), 96 * kMib - 8192) << "parameters and gradients remain";
}

TEST(Logits, are_not_the_first_step_if_another_saves_more) {
  const auto found = of_language_model({.scores_mib = 100});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("scaled_dot_product_attention"));
  EXPECT_THAT(steps_text(found[0]), HasSubstr("fused linear cross entropy"));
  EXPECT_EQ(found[0].saving_bytes(), 200 * kMib);
}

TEST(Logits, need_a_linear_operator_and_a_cross_entropy) {
  const auto is_named = [](const Spelling& made) {
    return steps_text(of_language_model(made)[0]).find("cross entropy") != std::string::npos;
  };
  EXPECT_TRUE(is_named({.loss = "aten::log_softmax", .after = "aten::nll_loss_nd"}));
  EXPECT_TRUE(is_named({.maker = "aten::addmm"}));
  EXPECT_FALSE(is_named({.maker = "aten::conv3d"}));
  EXPECT_FALSE(is_named({.loss = "aten::log_softmax", .after = "aten::sum"})) << "a focal loss";
  EXPECT_FALSE(is_named({.loss = "aten::softmax"}));
}

}  // namespace
}  // namespace plimsoll::findings
