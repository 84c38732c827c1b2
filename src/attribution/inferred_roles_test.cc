#include "attribution/inferred_roles.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::attribution {
namespace {

using model::StackId;
using model::Trace;
using testing::ElementsAre;
using tests::FrameText;
using tests::TraceMaker;

constexpr FrameText kMain{"/u/train.py", 9, "<module>"};

// A training run as PyTorch's allocator records it.
class InferredRoles : public testing::Test {
 protected:
  TraceMaker maker_;
  StackId made_ = maker_.stack({{"/u/net.py", 5, "Net.__init__"}, kMain});
  StackId forward_ = maker_.stack({{"/u/net.py", 12, "Net.forward"}, kMain});
  StackId loss_ = maker_.stack({{"/x/site-packages/torch/nn/functional.py", 3, "mse_loss"}, kMain});
  StackId backward_ = maker_.stack({{"??", 0, "torch::autograd::Engine::thread_main(...)"}});
  StackId state_ = maker_.stack({{"/x/site-packages/torch/optim/adam.py", 175, "Adam._init_group"},
                                 {"/x/site-packages/torch/optim/adam.py", 238, "Adam.step"},
                                 kMain});
  StackId step_ = maker_.stack({{"/u/my_optim.py", 5, "step"},
                                {"/x/site-packages/torch/optim/optimizer.py", 530, "wrapper"},
                                kMain});
  StackId main_ = maker_.stack({kMain});

  void alloc(std::uint64_t address, std::uint64_t size_bytes, StackId stack) {
    maker_.alloc(address, size_bytes, stack);
  }
  void free(std::uint64_t address, std::uint64_t size_bytes) { maker_.free(address, size_bytes); }

  // The category of each allocation in the history.
  std::vector<std::string> categories() {
    trace_ = maker_.finish();
    infer_roles(trace_);
    std::vector<std::string> words;
    for (const model::DeviceTrace& device : trace_.devices) {
      const model::Lifetimes& lifetimes = device.lifetimes;
      for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
        words.emplace_back(trace_.strings[trace_.category(device, row)]);
      }
    }
    return words;
  }
  // The categories of the memory from before the history, by size.
  std::vector<std::string> baseline() {
    std::vector<std::string> words;
    const model::DeviceTrace& device = trace_.devices.front();
    for (std::uint32_t row = 0; row < device.lifetimes.baseline_count; ++row) {
      words.push_back(std::to_string(trace_.size_bytes(device, row)) + " " +
                      std::string(trace_.strings[trace_.category(device, row)]));
    }
    std::ranges::sort(words);
    return words;
  }

  Trace trace_;
};

TEST_F(InferredRoles, a_training_step_from_the_start) {
  alloc(1, 400, made_);     // a parameter
  alloc(2, 400, made_);     // its initial values,
  free(2, 400);             // freed immediately
  alloc(3, 64, main_);      // the batch
  alloc(4, 800, forward_);  // saved for backward
  alloc(5, 80, forward_);   // freed immediately
  free(5, 80);
  alloc(6, 4, loss_);        // the loss
  alloc(7, 800, backward_);  // gradient of the activation
  free(4, 800);
  alloc(8, 400, backward_);  // gradient of the parameter
  free(7, 800);
  alloc(9, 400, state_);  // one of Adam's moments
  alloc(10, 400, step_);  // scratch
  free(10, 400);
  free(8, 400);
  free(6, 4);
  free(3, 64);
  alloc(11, 64, main_);
  alloc(12, 800, forward_);
  alloc(13, 800, backward_);
  EXPECT_THAT(categories(),
              ElementsAre("parameter", "other", "input", "activation", "temporary", "activation",
                          "activation_gradient", "gradient", "optimizer_state", "optimizer_scratch",
                          "input", "activation", "activation_gradient"));
  EXPECT_TRUE(trace_.has_inferred_roles);
}

TEST_F(InferredRoles, a_custom_optimizer_creates_its_state_in_its_step) {
  alloc(1, 400, made_);
  alloc(2, 800, forward_);
  alloc(3, 400, backward_);
  alloc(4, 400, step_);
  alloc(5, 400, step_);
  free(5, 400);
  alloc(6, 800, forward_);
  alloc(7, 800, backward_);
  EXPECT_THAT(categories(), ElementsAre("parameter", "activation", "gradient", "optimizer_state",
                                        "optimizer_scratch", "activation", "activation_gradient"));
}

// Two parameters of 400 bytes and one of 100; the history begins between two steps.
TEST_F(InferredRoles, memory_from_before_is_categorized_by_the_sizes_of_gradients) {
  std::vector<model::Block> blocks;
  std::uint64_t address = 1'000'000;
  const auto live_before = [&](std::uint64_t size_bytes, std::size_t count) {
    for (; count > 0; --count) {
      model::Block block;
      block.address = address;
      block.size = 1'024;
      block.requested_size = size_bytes;
      block.state = model::BlockState::kActiveAllocated;
      blocks.push_back(block);
      address += 1'024;
    }
  };
  live_before(400, 6);  // parameters with two moments each
  live_before(100, 3);
  live_before(7, 1);  // something else
  maker_.segment(1'000'000, address - 1'000'000, blocks);
  maker_.free(501, 400).free(502, 400).free(503, 100);  // zero_grad()
  alloc(1, 800, forward_);
  alloc(2, 400, backward_);
  alloc(3, 100, backward_);
  alloc(4, 400, backward_);
  free(1, 800);
  alloc(5, 400, step_);
  free(5, 400);
  maker_.free(2, 400).free(3, 100).free(4, 400);
  EXPECT_THAT(categories(),
              ElementsAre("activation", "gradient", "gradient", "gradient", "optimizer_scratch"));
  EXPECT_THAT(baseline(),
              ElementsAre("100 gradient", "100 optimizer_state", "100 optimizer_state",
                          "100 parameter", "400 gradient", "400 gradient", "400 optimizer_state",
                          "400 optimizer_state", "400 optimizer_state", "400 optimizer_state",
                          "400 parameter", "400 parameter", "7 unknown"));
}

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Live from before the history to the end.
void live_before(TraceMaker& maker, const std::vector<std::uint64_t>& sizes_bytes) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;
  std::vector<model::Block> blocks;
  std::uint64_t address = kFirst;
  for (const std::uint64_t size_bytes : sizes_bytes) {
    model::Block block;
    block.address = address;
    block.size = block.requested_size = size_bytes;
    block.state = model::BlockState::kActiveAllocated;
    blocks.push_back(block);
    address += size_bytes;
  }
  maker.segment(kFirst, address - kFirst, blocks);
}

TEST_F(InferredRoles, moments_replaced_in_a_step_show_that_gradients_are_kept) {
  constexpr std::uint64_t kWorkspace = 8519680;
  live_before(maker_, {40 * kMib, 40 * kMib, 40 * kMib, 40 * kMib, 10 * kMib, 10 * kMib, 10 * kMib,
                       10 * kMib, kWorkspace, kWorkspace});
  alloc(1, 800, forward_);
  free(1, 800);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t size_bytes = (i < 4 ? 40 : 10) * kMib;
    alloc(10 + i, size_bytes, step_);
    free(501 + i, size_bytes);
  }
  categories();
  const auto found = baseline();
  for (const std::string size : {"10485760", "41943040"}) {
    EXPECT_THAT(found, testing::Contains(size + " parameter").Times(2));
    EXPECT_THAT(found, testing::Contains(size + " gradient").Times(2));
    EXPECT_THAT(found, testing::Contains(size + " optimizer_state").Times(4));
  }
  EXPECT_THAT(found, testing::Contains("8519680 workspace").Times(2));
}

// Four of each of two sizes.
std::vector<std::uint64_t> four_copies() {
  const std::uint64_t large = 40 * kMib, small = 10 * kMib;
  return {large, large, large, large, small, small, small, small};
}

TEST_F(InferredRoles, four_of_each_size_are_parameters_gradients_and_two_moments) {
  live_before(maker_, four_copies());
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("41943040 parameter").Times(1));
  EXPECT_THAT(baseline(), testing::Contains("41943040 optimizer_state").Times(2));
}

TEST_F(InferredRoles, a_single_large_block_rules_out_four_copies) {
  std::vector<std::uint64_t> sizes = four_copies();
  sizes.push_back(100 * kMib);
  live_before(maker_, sizes);
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("41943040 unknown").Times(4));
}

// A decoder of four blocks with two norms each, and a final norm; its embedding and head have the
// same size and are the largest.
std::vector<std::uint64_t> decoder(std::size_t copies, std::uint64_t norm_bytes) {
  std::vector<std::uint64_t> sizes(9 * copies, norm_bytes);
  sizes.insert(sizes.end(), 2 * copies, 40 * kMib);
  sizes.insert(sizes.end(), 12 * copies, 8 * kMib);
  sizes.insert(sizes.end(), 16 * copies, 2 * kMib);
  return sizes;
}

TEST_F(InferredRoles, an_odd_number_of_norms_shows_that_there_are_no_gradients) {
  live_before(maker_, decoder(1, 4096));
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("8388608 parameter").Times(12));
  EXPECT_THAT(baseline(), testing::Contains("41943040 parameter").Times(2));
}

TEST_F(InferredRoles, with_gradients_the_number_of_norms_is_even_and_nothing_is_inferred) {
  live_before(maker_, decoder(2, 4096));
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("8388608 unknown").Times(24));
}

TEST_F(InferredRoles, with_two_moments_nothing_is_inferred) {
  live_before(maker_, decoder(3, 4096));
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("8388608 unknown").Times(36));
}

TEST_F(InferredRoles, buffers_not_as_wide_as_the_layers_are_ignored) {
  live_before(maker_, decoder(1, 3000));
  alloc(1, 800, forward_);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("8388608 unknown").Times(12));
}

// The categories of the baseline's blocks of 32 MiB, the size of cuBLAS's larger workspace.
std::vector<std::string> of_large_size(const std::vector<std::string>& baseline) {
  std::vector<std::string> found;
  for (const std::string& word : baseline) {
    if (word.starts_with("33554432 ")) found.push_back(word.substr(9));
  }
  return found;
}

TEST_F(InferredRoles, what_no_copy_of_the_model_explains_is_a_workspace) {
  std::vector<std::uint64_t> sizes(std::size_t{3} * 2, 400);  // two weights with two moments each
  sizes.insert(sizes.end(), 3 * 1 + 2, 32 * kMib);  // one as large as a workspace, and two of these
  live_before(maker_, sizes);
  alloc(1, 800, forward_);
  for (std::uint64_t i = 0; i < 3; ++i) alloc(10 + i, i < 2 ? 400 : 32 * kMib, backward_);
  free(1, 800);
  alloc(20, 8, step_);
  free(20, 8);
  categories();
  EXPECT_THAT(of_large_size(baseline()), ElementsAre("optimizer_state", "optimizer_state",
                                                     "parameter", "workspace", "workspace"));
}

TEST_F(InferredRoles, buffers_as_large_as_a_weight_are_no_state) {
  std::vector<std::uint64_t> sizes(std::size_t{3} * 2, 4000);  // two weights with two moments each
  sizes.insert(sizes.end(), 3 * 1 + 2, 400);                   // a vector, and two buffers as wide
  live_before(maker_, sizes);
  alloc(1, 800, forward_);
  for (std::uint64_t i = 0; i < 3; ++i) alloc(10 + i, i < 2 ? 4000 : 400, backward_);
  free(1, 800);
  alloc(20, 8, step_);
  free(20, 8);
  categories();
  EXPECT_THAT(baseline(), testing::Contains("400 unknown").Times(2));
  EXPECT_THAT(baseline(), testing::Contains("400 optimizer_state").Times(2));
  EXPECT_THAT(baseline(), testing::Contains("4000 optimizer_state").Times(4));
}

TEST_F(InferredRoles, a_file_in_a_folder_of_optimizers_makes_state) {
  const StackId made_by_adagrad =
      maker_.stack({{"/x/site-packages/torch/optim/adagrad.py", 95, "Adagrad.__init__"}, kMain});
  alloc(1, 400, made_);
  alloc(2, 400, made_by_adagrad);
  alloc(3, 800, forward_);
  alloc(4, 800, backward_);
  EXPECT_THAT(categories(),
              ElementsAre("parameter", "optimizer_state", "activation", "activation_gradient"));
}

TEST_F(InferredRoles, more_blocks_than_threads_are_no_workspaces) {
  std::vector<std::uint64_t> sizes(std::size_t{3} * 2, 400);
  sizes.insert(sizes.end(), 3, 32 * kMib);
  live_before(maker_, sizes);
  alloc(1, 800, forward_);
  for (std::uint64_t i = 0; i < 2; ++i) alloc(10 + i, 400, backward_);
  free(1, 800);
  alloc(20, 8, step_);
  categories();
  EXPECT_THAT(of_large_size(baseline()), ElementsAre("unknown", "unknown", "unknown"));
}

TEST_F(InferredRoles, categories_in_the_file_are_kept) {
  maker_.alloc_reported(1, 400, {.category = "workspace", .stack = forward_});
  EXPECT_THAT(categories(), ElementsAre("workspace"));
  EXPECT_FALSE(trace_.has_inferred_roles);
}

TEST_F(InferredRoles, pinned_memory_of_the_host_is_named) {
  alloc(1, 400, main_);
  maker_.on(model::Device{model::DeviceType::kPinnedHost, -2});
  alloc(2, 400, main_);
  const std::vector<std::string> all = categories();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all.front(), "pinned_host");
  EXPECT_EQ(all.back(), "pinned_host");
}

TEST_F(InferredRoles, without_stacks_nothing_is_inferred) {
  alloc(1, 400, model::kNoStack);
  EXPECT_THAT(categories(), ElementsAre(""));
  EXPECT_FALSE(trace_.has_inferred_roles);
}

}  // namespace
}  // namespace plimsoll::attribution
