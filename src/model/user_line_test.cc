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

TEST(UserLines, packages_and_the_standard_library_are_not_the_users_code) {
  const FrameText user{"/home/u/proj/train.py", 5, "main"};
  for (const char* file :
       {"/x/site-packages/einops/_backends.py", "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib/python3.11/copy.py", "/opt/conda/lib/python3.13t/copy.py",
        "/usr/lib64/python3.9/copy.py", R"(C:\Python312\Lib\copy.py)",
        R"(C:\Users\u\miniconda3\Lib\copy.py)", R"(C:\Users\u\conda\envs\a\Lib\copy.py)",
        R"(C:\a\Lib\site-packages\einops\_backends.py)"}) {
    EXPECT_EQ(label_of({kTorch, {file, 288, "einsum"}, user}), "u/proj/train.py:5 (main)") << file;
  }
}

TEST(UserLines, allocations_of_a_package_for_a_line_are_known) {
  TraceMaker maker;
  const FrameText user{"/home/u/train.py", 5, "main"};
  const StackId direct = maker.stack({kNative, kTorch, user});
  const StackId through = maker.stack({kTorch, {"/x/site-packages/a/b.py", 1, "run"}, user});
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  EXPECT_FALSE(lines.is_in_package(direct));
  EXPECT_TRUE(lines.is_in_package(through));
  EXPECT_EQ(lines.line(direct), lines.line(through));
}

TEST(UserLines, folders_merely_named_like_a_library_are_user_code) {
  for (const char* file :
       {"/home/u/lib/net.py", "/home/u/lib/python/net.py", "/home/u/lib/python3-course/net.py",
        "/home/u/my-site-packages/net.py", R"(C:\Users\u\Lib\net.py)", "/home/u/torch/net.py"}) {
    EXPECT_TRUE(label_of({{file, 7, "forward"}, {"/home/u/train.py", 5, "main"}})
                    .ends_with("net.py:7 (forward)"))
        << file;
  }
}

TEST(UserLines, a_package_is_charged_if_there_is_no_user_frame) {
  EXPECT_EQ(label_of({{"/x/site-packages/torchvision/models/resnet.py", 7, "forward"},
                      {"/usr/lib/python3.11/threading.py", 982, "run"}}),
            "torchvision/models/resnet.py:7 (forward)");
}

TEST(UserLines, generated_code_is_charged_only_as_a_last_resort) {
  const FrameText generated{"/tmp/torchinductor_u/ab/cabc.py", 33, "call"};
  EXPECT_EQ(label_of({generated, {"/home/u/train.py", 5, "main"}}), "/home/u/train.py:5 (main)");
  EXPECT_EQ(label_of({generated, {"/x/site-packages/a/b.py", 5, "run"}}),
            "site-packages/a/b.py:5 (run)");
  EXPECT_EQ(label_of({kNative, generated, {"<frozen a>", 1, "f"}}),
            "torchinductor_u/ab/cabc.py:33 (call)");
}

TEST(UserLines, a_program_given_as_text_is_user_code) {
  const FrameText library{"/usr/lib/python3.11/copy.py", 7, "deepcopy"};
  EXPECT_EQ(label_of({library, {"<string>", 3, "<module>"}}), "<string>:3 (<module>)");
  EXPECT_EQ(label_of({library, {"<stdin>", 3, "<module>"}}), "<stdin>:3 (<module>)");
  // A dataclass generates its __init__ as text.
  EXPECT_EQ(label_of({{"<string>", 2, "__init__"}, {"/home/u/train.py", 5, "main"}}),
            "/home/u/train.py:5 (main)");
}

TEST(UserLines, notebook_cells_are_labelled_with_their_number) {
  for (const char* file :
       {"<ipython-input-2-93c1e0a5f7d8>", "/tmp/ipython-input-2-1871.py", "In[2]"}) {
    EXPECT_EQ(label_of({kTorch, {file, 3, "<module>"}, {"/x/site-packages/a.py", 1, "run_code"}}),
              "In[2]:3 (<module>)")
        << file;
  }
}

TEST(UserLines, stacks_without_a_line_state_the_reason) {
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
    EXPECT_EQ(lines.label(python), "/home/u/train.py:5 (main)");
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

TEST(UserLines, the_innermost_frame_is_charged_in_recordings_of_cpp_programs) {
  for (const bool has_python : {false, true}) {
    TraceMaker maker;
    maker.builder().attribution_known();
    const StackId stack = maker.stack(
        {{"/home/u/net.h", 7, "Net::forward(at::Tensor)"}, {"/home/u/train.cc", 5, "main"}});
    const StackId plain = maker.stack({{"libnet.so", 0, "step()"}, {"train", 0, "main"}});
    if (has_python) maker.stack({{"/home/u/train.py", 5, "main"}});
    const Trace trace = maker.finish();
    const UserLines lines(trace);
    const std::string_view none = "[native code, no Python frame]";
    EXPECT_EQ(lines.label(stack), has_python ? none : "/home/u/net.h:7 (Net::forward(at::Tensor))");
    EXPECT_EQ(lines.label(plain), has_python ? none : "libnet.so:0 (step())");
    EXPECT_EQ(lines.library(plain), "");
  }
}

TEST(OperatorOf, the_outermost_operator_of_the_stack_is_named) {
  TraceMaker maker;
  const StackId stack = maker.stack({{"??", 0, "at::_ops::empty_memory_format::call(...)"},
                                     {"??", 0, "at::Tensor at::_ops::linear::call(...)"},
                                     {"/home/u/train.py", 5, "main"}});
  const StackId none = maker.stack({{"/home/u/train.py", 5, "main"}});
  const Trace trace = maker.finish();
  EXPECT_EQ(operator_of(trace, stack), "aten::linear");
  EXPECT_EQ(operator_of(trace, none), "");
}

TEST(UserLines, native_recordings_state_why_a_line_is_missing) {
  for (const bool has_stacks : {false, true}) {
    tests::TraceMaker maker;
    maker.alloc_reported(1, 1, {.phase = Phase::kForward});
    if (has_stacks) maker.alloc(2, 1, maker.stack({{"a.py", 1, "f"}}));
    const Trace trace = maker.finish();
    EXPECT_EQ(UserLines(trace).label(kNoStack),
              has_stacks ? "[no Python frame on this thread]" : "[recorded without lines]");
  }
}

}  // namespace
}  // namespace plimsoll::model
