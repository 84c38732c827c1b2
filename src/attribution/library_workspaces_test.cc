#include "attribution/library_workspaces.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attribution/inferred_roles.h"
#include "model/user_line.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::attribution {
namespace {

using model::Phase;
using model::StackId;
using model::Trace;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::FrameText;
using tests::TraceMaker;

constexpr std::uint64_t kCublas = 33'554'432;
constexpr std::uint64_t kLt = 1'048'576;
constexpr FrameText kScript{"/u/train.py", 9, "<module>"};

std::vector<std::uint64_t> sizes_of_workspaces(const Trace& trace) {
  std::vector<std::uint64_t> sizes;
  for (const model::DeviceTrace& device : trace.devices) {
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      if (trace.strings[trace.category(device, row)] == "workspace") {
        sizes.push_back(trace.size_bytes(device, row));
      }
    }
  }
  return sizes;
}

// A snapshot with Python frames. Stacks in backward are empty, because autograd's threads have no
// frames.
class SnapshotWorkspaces : public testing::Test {
 protected:
  TraceMaker maker_;
  StackId made_ = maker_.stack({{"/u/net.py", 5, "Net.__init__"}, kScript});
  StackId linear_ = maker_.stack({{"/u/net.py", 12, "Net.forward"}, kScript});
  StackId relu_ = maker_.stack({{"/u/net.py", 13, "Net.forward"}, kScript});
  StackId cache_ = maker_.stack({{"/u/net.py", 14, "Net.forward"}, kScript});
  StackId state_ = maker_.stack({{"/x/site-packages/torch/optim/adam.py", 175, "Adam._init_group"},
                                 {"/x/site-packages/torch/optim/adam.py", 238, "Adam.step"},
                                 kScript});
  Trace trace_;
  std::uint64_t next_ = 1;

  std::uint64_t alloc(std::uint64_t size_bytes, StackId stack) {
    maker_.alloc(next_, size_bytes, stack);
    return next_++;
  }
  void free(std::uint64_t address, std::uint64_t size_bytes) { maker_.free(address, size_bytes); }

  std::vector<std::uint64_t> workspaces() {
    trace_ = maker_.finish();
    infer_roles(trace_);
    return sizes_of_workspaces(trace_);
  }

  // Forward, backward and optimizer of a model with one weight.
  void step(std::uint64_t weight_bytes, bool is_first, bool frees_gradient = true) {
    const std::uint64_t result = alloc(800, linear_);
    if (is_first) alloc(kCublas, linear_), alloc(kLt, linear_);
    const std::uint64_t relu = alloc(800, relu_);
    const std::uint64_t of_result = alloc(800, model::kEmptyStack);
    if (is_first) alloc(kCublas, model::kEmptyStack);
    if (is_first || frees_gradient) gradient_ = alloc(weight_bytes, model::kEmptyStack);
    free(result, 800), free(relu, 800), free(of_result, 800);
    if (is_first) alloc(weight_bytes, state_);
    free(alloc(16, state_), 16);
    if (frees_gradient) free(gradient_, weight_bytes);
  }
  std::uint64_t gradient_ = 0;
};

TEST_F(SnapshotWorkspaces, one_of_each_thread_and_one_of_cublaslt) {
  alloc(400, made_);
  step(400, true);
  step(400, false);
  EXPECT_THAT(workspaces(), ElementsAre(kCublas, kLt, kCublas));
  const model::DeviceTrace& device = trace_.devices.front();
  const model::Site& site = trace_.birth(device, 2);
  EXPECT_EQ(model::UserLines(trace_).label(site.stack), "[library workspace]");
}

// zero_grad(set_to_none=False), and no workspace of the gradient's size.
TEST_F(SnapshotWorkspaces, kept_gradients_are_none) {
  alloc(kLt, made_);
  for (const bool is_first : {true, false}) {
    const std::uint64_t result = alloc(800, linear_);
    const std::uint64_t of_result = alloc(800, model::kEmptyStack);
    if (is_first) alloc(kLt, model::kEmptyStack);
    free(result, 800), free(of_result, 800);
    free(alloc(16, state_), 16);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

// The parameter is whether zero_grad() frees the gradients.
class SnapshotWorkspacesAndGradients : public SnapshotWorkspaces,
                                       public testing::WithParamInterface<bool> {};

TEST_P(SnapshotWorkspacesAndGradients, weights_of_the_same_size_stay_weights) {
  alloc(kCublas, made_);
  step(kCublas, true, GetParam());
  step(kCublas, false, GetParam());
  EXPECT_THAT(workspaces(), ElementsAre(kCublas, kLt, kCublas));
  std::vector<std::string> words;
  const model::DeviceTrace& device = trace_.devices.front();
  for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
    if (trace_.size_bytes(device, row) == kCublas) {
      words.emplace_back(trace_.strings[trace_.category(device, row)]);
    }
  }
  EXPECT_EQ(std::ranges::count(words, "parameter"), 1);
  EXPECT_EQ(std::ranges::count(words, "optimizer_state"), 1);
  EXPECT_EQ(std::ranges::count(words, "gradient"), GetParam() ? 2 : 1);
}
INSTANTIATE_TEST_SUITE_P(zero_grad, SnapshotWorkspacesAndGradients, testing::Bool());

TEST_F(SnapshotWorkspaces, a_tensor_kept_at_every_step_is_none) {
  alloc(400, made_);
  for (int i = 0; i < 3; ++i) {
    alloc(800, linear_);
    alloc(kCublas, linear_);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, activations_of_an_unfinished_step_are_none) {
  alloc(400, made_);
  step(400, true);
  for (int layer = 0; layer < 2; ++layer) {
    alloc(kLt, linear_);
    alloc(800, relu_);
  }
  EXPECT_THAT(workspaces(), ElementsAre(kCublas, kLt, kCublas));
}

TEST_F(SnapshotWorkspaces, activations_of_the_first_step_are_none) {
  for (const std::uint64_t bytes : {std::uint64_t{800}, kCublas, std::uint64_t{400}}) {
    alloc(bytes, linear_);  // three layers, called in a loop
  }
  alloc(800, relu_);
  alloc(400, linear_);
  alloc(800, model::kEmptyStack);  // memory runs out in backward
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, of_inference_follow_a_result_that_is_freed) {
  for (const bool is_first : {true, false}) {
    const std::uint64_t result = alloc(800, linear_);
    if (is_first) alloc(kCublas, linear_);
    const std::uint64_t relu = alloc(800, relu_);
    free(result, 800), free(relu, 800);
  }
  EXPECT_THAT(workspaces(), ElementsAre(kCublas));
}

// The line runs again, and makes the same number of tensors.
TEST_F(SnapshotWorkspaces, results_that_the_first_step_keeps_are_none) {
  alloc(400, made_);
  for (const bool is_first : {true, false}) {
    const std::uint64_t product = alloc(kCublas, linear_);
    const std::uint64_t result = alloc(kCublas, linear_);
    const std::uint64_t of_result = alloc(800, model::kEmptyStack);
    free(product, kCublas), free(of_result, 800);
    if (!is_first) free(result, kCublas);
    free(alloc(16, state_), 16);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, masks_of_each_new_length_are_none) {
  alloc(400, made_);
  for (const std::uint64_t bytes : {kLt, std::uint64_t{2'000'000}, kLt * 4}) {
    free(alloc(bytes, cache_), bytes);
    alloc(bytes, cache_);
    free(alloc(800, relu_), 800);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, a_kept_gradient_of_a_parameter_that_the_script_makes_is_none) {
  const StackId script = maker_.stack({kScript});
  alloc(kCublas, script);
  for (const bool is_first : {true, false}) {
    const std::uint64_t result = alloc(800, linear_);
    const std::uint64_t of_result = alloc(800, model::kEmptyStack);
    if (is_first) alloc(kCublas, model::kEmptyStack);
    free(result, 800), free(of_result, 800);
    free(alloc(16, state_), 16);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, have_one_size_of_cublas_on_a_device) {
  constexpr std::uint64_t kSmall = 8'519'680;
  alloc(400, made_);
  for (const bool is_first : {true, false}) {
    free(alloc(800, linear_), 800);
    if (is_first) alloc(kSmall, linear_);
    free(alloc(800, relu_), 800);
    if (is_first) alloc(kCublas, relu_);
    free(alloc(16, state_), 16);
  }
  EXPECT_THAT(workspaces(), ElementsAre(kSmall));
}

TEST_F(SnapshotWorkspaces, a_cache_that_forward_makes_once_is_none) {
  alloc(400, made_);
  alloc(800, linear_);
  alloc(kCublas, cache_);
  alloc(800, linear_);
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, a_history_that_begins_later_has_gradients_only) {
  alloc(400, made_);
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t result = alloc(800, linear_);
    alloc(800, model::kEmptyStack);
    const std::uint64_t gradient = alloc(kCublas, model::kEmptyStack);
    alloc(16, state_);
    free(result, 800);
    if (i == 0) free(gradient, kCublas);
  }
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(SnapshotWorkspaces, native_frames_prove_them) {
  const StackId handle = maker_.stack({{"??", 0, "at::cuda::getCurrentCUDABlasHandle()"},
                                       {"/u/net.py", 12, "Net.forward"},
                                       kScript});
  alloc(800, linear_);
  const std::uint64_t first = alloc(std::uint64_t{64} * 1024, handle);
  free(first, std::uint64_t{64} * 1024);
  alloc(kCublas, linear_);
  alloc(800, linear_);
  EXPECT_THAT(workspaces(), ElementsAre(64 * 1024)) << "of any size, and no other";
}

// A recording with operators and categories, from before the category `workspace`.
class RecordedWorkspaces : public testing::Test {
 protected:
  TraceMaker maker_;
  std::uint64_t next_ = 1;

  std::uint64_t alloc(std::uint64_t size_bytes, std::string_view category, std::string_view op,
                      Phase phase) {
    maker_.alloc_reported(next_, size_bytes,
                          {.layer = "Net.head", .category = category, .phase = phase, .op = op});
    return next_++;
  }
  std::vector<std::uint64_t> workspaces() {
    Trace trace = maker_.finish();
    trace.has_attribution = true;
    name_unrecorded_workspaces(trace);
    return sizes_of_workspaces(trace);
  }
};

TEST_F(RecordedWorkspaces, follow_the_result_of_a_multiplication) {
  alloc(800, "activation", "aten::addmm", Phase::kForward);
  alloc(kCublas, "activation", "aten::addmm", Phase::kForward);
  alloc(kLt, "activation", "aten::addmm", Phase::kForward);
  alloc(800, "activation_gradient", "aten::mm", Phase::kBackward);
  alloc(kCublas, "activation_gradient", "aten::mm", Phase::kBackward);
  EXPECT_THAT(workspaces(), ElementsAre(kCublas, kLt, kCublas));
}

TEST_F(RecordedWorkspaces, belong_to_no_layer) {
  alloc(800, "activation", "aten::addmm", Phase::kForward);
  alloc(kCublas, "activation", "aten::addmm", Phase::kForward);
  Trace trace = maker_.finish();
  trace.has_attribution = true;
  name_unrecorded_workspaces(trace);
  const model::DeviceTrace& device = trace.devices.front();
  EXPECT_EQ(trace.strings[trace.birth(device, 0).layer], "Net.head");
  EXPECT_EQ(trace.strings[trace.birth(device, 1).layer], "");
}

TEST_F(RecordedWorkspaces, other_operators_and_results_have_none) {
  alloc(kCublas, "activation", "aten::addmm", Phase::kForward);
  alloc(800, "activation", "aten::cat", Phase::kForward);
  alloc(kCublas, "activation", "aten::cat", Phase::kForward);
  alloc(800, "activation", "aten::mm", Phase::kForward);
  alloc(kCublas, "gradient", "aten::mm", Phase::kBackward);
  EXPECT_THAT(workspaces(), IsEmpty());
}

TEST_F(RecordedWorkspaces, a_recording_that_names_one_is_complete) {
  alloc(800, "activation", "aten::addmm", Phase::kForward);
  alloc(kCublas, "activation", "aten::addmm", Phase::kForward);
  alloc(5, "workspace", "aten::bmm", Phase::kForward);
  EXPECT_THAT(workspaces(), ElementsAre(5));
}

}  // namespace
}  // namespace plimsoll::attribution
