#include "model/communication.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::model {
namespace {

const std::string kTorch = "/env/lib/python3.11/site-packages/torch";

// `files` are innermost first.
bool is_in(const std::vector<std::string>& files) {
  StringTable strings;
  StackTable stacks;
  std::vector<FrameId> frames;
  for (const std::string& file : files) {
    frames.push_back(stacks.intern_frame({strings.intern(file), {}, 1, 0}));
  }
  return is_communication_stack(stacks.intern_stack(frames), stacks, strings);
}

TEST(Communication, includes_allocations_in_files_of_ddp_and_fsdp) {
  EXPECT_TRUE(is_in({kTorch + "/nn/parallel/distributed.py", "train.py"}));
  EXPECT_TRUE(is_in({kTorch + "/distributed/fsdp/_fully_shard/_fsdp_param.py", "train.py"}));
  EXPECT_TRUE(is_in({kTorch + "/_ops.py", kTorch + "/distributed/fsdp/_collectives.py"}));
}

TEST(Communication, excludes_allocations_of_a_wrapped_model) {
  EXPECT_FALSE(is_in({kTorch + "/nn/modules/linear.py", kTorch + "/nn/parallel/distributed.py"}));
  EXPECT_FALSE(is_in({"model.py", kTorch + "/distributed/fsdp/_fully_shard/_fsdp_state.py"}));
  EXPECT_FALSE(is_in({kTorch + "/distributed/tensor/_dispatch.py", "train.py"}));
  EXPECT_FALSE(is_in({kTorch + "/_ops.py"}));
  EXPECT_FALSE(is_in({}));
}

TEST(Communication, skips_native_frames) {
  EXPECT_TRUE(is_in({"??", "/pytorch/c10/cuda/CUDACachingAllocator.cpp",
                     kTorch + "/nn/parallel/distributed.py", "train.py"}));
  EXPECT_FALSE(is_in({"??", "train.py", kTorch + "/nn/parallel/distributed.py"}));
}

TEST(Communication, includes_operators_and_nodes_of_fsdp) {
  EXPECT_TRUE(is_communication_op("fsdp::all_gather_copy_in"));
  EXPECT_TRUE(is_communication_op("RegisterPostBackwardFunctionBackward"));
  EXPECT_FALSE(is_communication_op("AddmmBackward0"));
  EXPECT_FALSE(is_communication_op("aten::empty"));
}

}  // namespace
}  // namespace plimsoll::model
