#include "model/user_line.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::FrameText;
using tests::TraceMaker;

std::string label_of(std::initializer_list<FrameText> frames) {
  TraceMaker maker;
  const StackId stack = maker.stack(frames);
  const Trace trace = maker.finish();
  return UserLines(trace).label(stack);
}

constexpr FrameText kNative{"??", 0, "at::_ops::add_Tensor::call(at::Tensor const&)"};
constexpr FrameText kTorch{"/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 125,
                           "forward"};

TEST(UserLines, innermost_python_frame_outside_torch_is_charged) {
  EXPECT_EQ(label_of({kNative,
                      kTorch,
                      {"/home/u/proj/net/model.py", 10, "forward"},
                      {"/home/u/proj/train.py", 5, "main"}}),
            "proj/net/model.py:10 (forward)");
}

TEST(UserLines, windows_paths_are_paths) {
  EXPECT_EQ(label_of({{R"(C:\py\Lib\site-packages\torch\nn\modules\linear.py)", 1, "forward"},
                      {R"(C:\Users\u\proj\model.py)", 10, "forward"}}),
            R"(u\proj\model.py:10 (forward))");
}

TEST(UserLines, packages_whose_name_begins_with_torch_are_not_torch) {
  EXPECT_EQ(label_of({{"/x/site-packages/torchvision/models/resnet.py", 7, "forward"}}),
            "torchvision/models/resnet.py:7 (forward)");
}

TEST(UserLines, generated_code_is_charged_only_if_there_is_no_other) {
  const FrameText generated{"/tmp/torchinductor_u/ab/cabc.py", 33, "call"};
  EXPECT_EQ(label_of({generated, {"/home/u/train.py", 5, "main"}}), "home/u/train.py:5 (main)");
  EXPECT_EQ(label_of({kNative, generated, {"<string>", 1, "f"}}),
            "torchinductor_u/ab/cabc.py:33 (call)");
}

TEST(UserLines, stacks_without_a_line_say_why) {
  EXPECT_EQ(label_of({kNative, kTorch}), "[native code, no Python frame]");
  EXPECT_EQ(label_of({kNative, {"??", 0, "torch::autograd::Engine::thread_main(...)"}}),
            "[backward, no Python frame]");
  EXPECT_EQ(label_of({{"", 0, "aten::mm"}, {"", 0, "AddmmBackward0"}}),
            "[backward, no Python frame]");
  EXPECT_EQ(label_of({}), "[no stack recorded]");
}

TEST(UserLines, stacks_with_the_same_line_have_one_id) {
  TraceMaker maker;
  const FrameText user{"/home/u/train.py", 5, "main"};
  const StackId plain = maker.stack({user});
  const StackId deeper = maker.stack({kNative, kTorch, user});
  const StackId other = maker.stack({{"/home/u/train.py", 6, "main"}});
  const StackId native = maker.stack({kNative});
  const StackId native_too = maker.stack({kTorch, kNative});
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  EXPECT_EQ(lines.line(plain), lines.line(deeper));
  EXPECT_NE(lines.line(plain), lines.line(other));
  EXPECT_EQ(lines.line(native), lines.line(native_too));
  EXPECT_EQ(lines.line(kNoStack), lines.line(kEmptyStack));
  EXPECT_EQ(lines.line_count(), 4u);
  EXPECT_EQ(lines.label(lines.line(deeper)), lines.label(deeper));
}

TEST(UserLines, native_frames_outside_cuda_are_charged_in_recordings_of_cuda_programs) {
  const FrameText runtime{"libcudart.so.12", 0, "cudaMalloc"};
  const FrameText library{"libnccl.so.2", 0, "ncclCommInitRank"};
  const FrameText program{"solver", 0, "+0x1234"};
  for (const bool is_cuda_program : {false, true}) {
    TraceMaker maker;
    if (is_cuda_program) maker.builder().native_lines_known();
    const StackId deep = maker.stack({runtime, library, program});
    const StackId plain = maker.stack({program});
    const StackId cuda_alone = maker.stack({runtime});
    const StackId python = maker.stack({library, {"/home/u/train.py", 5, "main"}});
    const Trace trace = maker.finish();
    const UserLines lines(trace);
    EXPECT_EQ(lines.label(python), "home/u/train.py:5 (main)");
    EXPECT_EQ(lines.library(python), "");
    if (is_cuda_program) {
      EXPECT_EQ(lines.label(deep), "libnccl.so.2:0 (ncclCommInitRank)");
      EXPECT_EQ(lines.library(deep), "libnccl.so.2");
      EXPECT_EQ(lines.library(plain), "solver");
      EXPECT_EQ(lines.library(cuda_alone), "libcudart.so.12");
      EXPECT_EQ(lines.library(kNoStack), "");
    } else {
      EXPECT_EQ(lines.label(deep), "[native code, no Python frame]");
      EXPECT_EQ(lines.library(deep), "");
    }
  }
}

TEST(OperatorOf, outermost_operator_of_the_stack_is_named) {
  TraceMaker maker;
  const StackId stack = maker.stack({{"??", 0, "at::_ops::empty_memory_format::call(...)"},
                                     {"??", 0, "at::Tensor at::_ops::linear::call(...)"},
                                     {"/home/u/train.py", 5, "main"}});
  const StackId none = maker.stack({{"/home/u/train.py", 5, "main"}});
  const Trace trace = maker.finish();
  EXPECT_EQ(operator_of(trace, stack), "aten::linear");
  EXPECT_EQ(operator_of(trace, none), "");
}

TEST(UserLines, our_own_recordings_say_why_a_line_is_missing) {
  for (const bool has_stacks : {false, true}) {
    tests::TraceMaker maker;
    maker.alloc_told(1, 1, {.phase = Phase::kForward});
    if (has_stacks) maker.alloc(2, 1, maker.stack({{"a.py", 1, "f"}}));
    const Trace trace = maker.finish();
    EXPECT_EQ(UserLines(trace).label(kNoStack),
              has_stacks ? "[no Python frame on this thread]" : "[recorded without Python lines]");
  }
}

}  // namespace
}  // namespace plimsoll::model
