#include "exporters/flame_frames.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::tests {
namespace {

std::string functions(const model::Trace& trace, model::StackId stack) {
  exporters::FlameFrames flame(trace);
  std::string text;
  for (model::FrameId frame : flame.root_first(stack)) {
    text +=
        (text.empty() ? "" : " ") + std::string(trace.strings[trace.stacks.frame(frame).function]);
  }
  return text;
}

TEST(FlameFrames, the_interpreter_is_left_out_and_the_program_is_kept) {
  TraceMaker maker;
  const auto stack = maker.stack({{"??", 0, "torch::unwind::unwind()"},
                                  {"", 0, "at::_ops::mul_Tensor::call"},
                                  {"", 0, "cfunction_call"},
                                  {"model.py", 3, "slot_filler"},
                                  {"ceval.c", 5, "_PyEval_EvalFrameDefault"},
                                  {"main.py", 1, "<module>"},
                                  {"??", 0, "main"},
                                  {"??", 0, "_start"}});
  const auto plumbing = maker.stack({{"??", 0, "PyEval_EvalCode"}, {"??", 0, "_start"}});
  const model::Trace trace = maker.finish();
  EXPECT_EQ(functions(trace, stack), "main <module> slot_filler at::_ops::mul_Tensor::call");
  EXPECT_EQ(functions(trace, plumbing), "_start PyEval_EvalCode") << "better than nothing";
  EXPECT_EQ(functions(trace, model::kNoStack), "");
}

}  // namespace
}  // namespace plimsoll::tests
