#include "model/inner_lines.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::FrameText;
using tests::TraceMaker;

constexpr FrameText kNative{"??", 0, "at::_ops::add_Tensor::call(at::Tensor const&)"};
constexpr FrameText kTorchFrame{"/x/site-packages/torch/nn/modules/linear.py", 125, "forward"};
constexpr FrameText kModel{"/x/site-packages/transformers/models/llama.py", 175, "forward"};
constexpr FrameText kTrainer{"/x/site-packages/transformers/trainer.py", 9, "train"};
constexpr FrameText kUser{"/home/u/train.py", 5, "main"};

TEST(InnerLines, the_innermost_line_of_a_package_allocates_for_the_line) {
  TraceMaker maker;
  const StackId through = maker.stack({kNative, kTorchFrame, kModel, kTrainer, kUser});
  const StackId again = maker.stack({kTorchFrame, kModel, kTrainer, kUser});
  const StackId torch = maker.stack({kNative, kTorchFrame, kUser});
  const StackId direct = maker.stack({kNative, kUser});
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  const InnerLines inner(trace, lines);
  const auto name = [&](StackId stack) { return inner.rows()[inner.of(stack)].name; };
  EXPECT_EQ(name(through), "transformers/models/llama.py:175 (forward)");
  EXPECT_EQ(inner.of(again), inner.of(through));
  EXPECT_EQ(name(torch), "torch/nn/modules/linear.py:125 (forward)");
  EXPECT_EQ(name(direct), kLineItself);
  EXPECT_TRUE(inner.rows()[inner.of(through)].is_in_package);
  EXPECT_FALSE(inner.rows()[inner.of(torch)].is_in_package);
  EXPECT_FALSE(inner.rows()[inner.of(direct)].is_in_package);
  for (const StackId stack : {through, torch, direct}) {
    EXPECT_EQ(inner.rows()[inner.of(stack)].line, lines.line(stack));
  }
}

TEST(InnerLines, a_line_inside_a_package_is_not_below_itself) {
  TraceMaker maker;
  const StackId stack = maker.stack({kTorchFrame, kModel, kTrainer});
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  const InnerLines inner(trace, lines);
  EXPECT_EQ(lines.label(stack), "transformers/models/llama.py:175 (forward)");
  EXPECT_EQ(inner.rows()[inner.of(stack)].name, "torch/nn/modules/linear.py:125 (forward)");
}

TEST(InnerLines, stacks_without_a_line_have_no_inner_line) {
  TraceMaker maker;
  const StackId native = maker.stack({kNative});
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  const InnerLines inner(trace, lines);
  EXPECT_EQ(inner.rows()[inner.of(native)].name, kLineItself);
  EXPECT_EQ(inner.rows()[inner.of(kNoStack)].name, kLineItself);
}

}  // namespace
}  // namespace plimsoll::model
