// The layers of a snapshot: forwards that run several times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* kModule = "/x/site-packages/torch/nn/modules/module.py";
constexpr const char* kLlama = "/x/site-packages/transformers/models/llama/modeling_llama.py";
constexpr const char* kWrapping = "/x/site-packages/transformers/modeling_layers.py";

using Frames = std::vector<tests::FrameText>;

// The stack of a tensor in a decoder layer, at `line` of its forward.
Frames in_layer(std::uint32_t line, Frames inside = {}) {
  Frames frames = std::move(inside);
  for (const auto& frame : Frames{{kLlama, line, "forward"},
                                  {kModule, 1779, "_wrapped_call_impl"},
                                  {kWrapping, 109, "__call__"},
                                  {kLlama, 403, "forward"},
                                  {kModule, 1779, "_wrapped_call_impl"},
                                  {kLlama, 467, "forward"},
                                  {kModule, 1779, "_wrapped_call_impl"},
                                  {"/u/scale.py", 19, "step"},
                                  {"/u/scale.py", 61, "main"}}) {
    frames.push_back(frame);
  }
  return frames;
}

// `layers` decoder layers, each of which keeps 10 MiB: a norm, two tensors of a matrix product, and
// its output of 2 MiB.
void llama_forward(Case& c, std::uint64_t first, std::size_t layers, Frames around = {}) {
  const auto stack = [&](std::uint32_t line, Frames inside) {
    Frames frames = in_layer(line, std::move(inside));
    frames.insert(frames.end() - 2, around.begin(), around.end());
    return c.maker.stack_of(frames);
  };
  const auto norm = stack(306, {{kLlama, 64, "forward"}});
  const auto mlp = stack(322, {{kLlama, 175, "forward"}});
  const auto output = stack(322, {});
  for (std::uint64_t i = 0; i < layers; ++i) {
    c.maker.alloc_reported(first + 4 * i, 2 * kMib, {.category = "activation", .stack = norm});
    c.maker.alloc_reported(first + 4 * i + 1, 3 * kMib, {.category = "activation", .stack = mlp});
    c.maker.alloc_reported(first + 4 * i + 2, 3 * kMib, {.category = "activation", .stack = mlp});
    c.maker.alloc_reported(first + 4 * i + 3, 2 * kMib,
                           {.category = "activation", .stack = output});
  }
}

Case llama_snapshot() {
  Case c;
  c.is_snapshot = true;
  c.peak_phase.clear();
  return c;
}

TEST(ForwardToCheckpoint, the_layers_of_a_package_are_counted_and_its_call_is_advised) {
  Case c = llama_snapshot();
  llama_forward(c, 1, 22);
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(
      found[0].evidence,
      Contains("Most of it is created at /u/scale.py:19 (step): 220.0 MiB, of which "
               "transformers/models/llama/modeling_llama.py:175 (forward) creates 132.0 MiB."));
  EXPECT_THAT(found[0].evidence,
              Contains("22 calls of forward at transformers/models/llama/modeling_llama.py:306 to "
                       "322 hold 220.0 MiB of it: 22 × 10.0 MiB."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("model.gradient_checkpointing_enable()"));
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("calls no layer"))));
  // 21 outputs remain, and one layer is recomputed at a time.
  EXPECT_EQ(found[0].saving_bytes(), (220 - 21 * 2 - 10) * kMib);
}

TEST(ForwardToCheckpoint, calls_that_backward_has_freed_count_and_come_back_in_their_backward) {
  Case c = llama_snapshot();
  const auto backward = c.maker.stack({{"??", 0, "torch::autograd::Engine::thread_main(...)"}});
  llama_forward(c, 1, 4);
  c.maker.alloc_reported(50, 4 * kMib, {.category = "activation_gradient", .stack = backward});
  c.peak_at_event = 16;
  for (std::uint64_t i = 16; i > 0; --i) c.maker.free(i, (i % 4 == 2 || i % 4 == 3 ? 3 : 2) * kMib);
  c.maker.free(50, 4 * kMib);
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("4 calls of forward")));
  // 40 + 4 MiB are reduced to four outputs of 2 MiB, and the gradient. When backward frees the last
  // output, the other 8 MiB of its layer are allocated again.
  EXPECT_EQ(found[0].saving_bytes(), (44 - 3 * 2 - 8 - 4) * kMib);
}

TEST(ForwardToCheckpoint, what_an_earlier_step_has_left_adds_no_calls) {
  Case c = llama_snapshot();
  llama_forward(c, 1, 5);
  for (std::uint64_t i = 2; i <= 20; ++i) {
    c.maker.free(i, (i % 4 == 2 || i % 4 == 3 ? 3 : 2) * kMib);
  }
  llama_forward(c, 101, 5);
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("5 calls of forward")));
}

TEST(ForwardToCheckpoint, layers_that_run_through_checkpoint_are_not_advised_again) {
  Case c = llama_snapshot();
  llama_forward(c, 1, 22, {{"/x/site-packages/torch/utils/checkpoint.py", 488, "checkpoint"}});
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].next_step(), "Use a smaller batch.");
  EXPECT_EQ(found[0].saving_bytes(), 0u);
}

TEST(ForwardToCheckpoint, frames_of_the_interpreter_do_not_hide_the_caller) {
  Case c = llama_snapshot();
  const auto layer = [&](std::uint32_t line) {
    return c.maker.stack({{"D:\\a\\b\\c\\model.py", line, "forward"},
                          {"??", 0, "_PyEval_EvalFrameDefault"},
                          {kModule, 1779, "_wrapped_call_impl"},
                          {"??", 0, "_PyEval_EvalFrameDefault"},
                          {"D:\\a\\b\\c\\model.py", 253, "forward"},
                          {"D:\\a\\b\\c\\train.py", 5, "main"}});
  };
  for (std::uint64_t i = 0; i < 12; ++i) {
    c.maker.alloc_reported(1 + 2 * i, 4 * kMib, {.category = "activation", .stack = layer(382)});
    c.maker.alloc_reported(2 + 2 * i, kMib, {.category = "activation", .stack = layer(387)});
  }
  EXPECT_THAT(c.run(explain_activations).at(0).evidence,
              Contains("12 calls of forward at b\\c\\model.py:382 to 387 hold 60.0 MiB of it: "
                       "12 × 5.0 MiB."));
}

TEST(ForwardToCheckpoint, a_single_forward_is_not_a_layer_of_many) {
  Case c = llama_snapshot();
  llama_forward(c, 1, 1);
  EXPECT_THAT(c.run(explain_activations).at(0).evidence,
              Not(Contains(HasSubstr("calls of forward"))));
}

}  // namespace
}  // namespace plimsoll::findings
