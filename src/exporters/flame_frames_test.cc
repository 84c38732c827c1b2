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

TEST(FlameFrames, frames_of_the_interpreter_are_omitted_but_not_the_programs) {
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

TEST(FlameFrames, torchs_call_wrappers_are_omitted_but_not_its_layers) {
  constexpr FrameText kLinear{"/x/site-packages/torch/nn/modules/linear.py", 125, "Linear.forward"};
  constexpr std::string_view kModule = "/x/site-packages/torch/nn/modules/module.py";
  TraceMaker maker;
  const auto stack = maker.stack({kLinear,
                                  {kModule, 1786, "Module._call_impl"},
                                  {kModule, 1775, "Module._wrapped_call_impl"},
                                  {"/home/u/net.py", 3, "_call_impl"},
                                  {"/x/site-packages/torch/utils/_contextlib.py", 120,
                                   "context_decorator.<locals>.decorate_context"},
                                  {"main.py", 1, "<module>"}});
  const model::Trace trace = maker.finish();
  EXPECT_EQ(functions(trace, stack), "<module> _call_impl Linear.forward");
}

}  // namespace
}  // namespace plimsoll::tests
