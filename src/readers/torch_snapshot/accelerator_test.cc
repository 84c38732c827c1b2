#include "readers/torch_snapshot/accelerator.h"

#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

namespace plimsoll::readers::torch_snapshot {
namespace {

using model::DeviceType;

DeviceType type_of(std::initializer_list<std::string_view> files) {
  model::StringTable strings;
  model::StackTable stacks;
  for (const std::string_view file : files) {
    model::Frame frame;
    frame.file = strings.intern(file);
    stacks.intern_frame(frame);
  }
  return accelerator_of_stacks(strings, stacks);
}

TEST(Accelerator, stacks_without_a_sign_are_of_cuda) {
  EXPECT_EQ(type_of({}), DeviceType::kCuda);
  EXPECT_EQ(type_of({"/home/user/train.py", "site-packages/torch/nn/modules/linear.py"}),
            DeviceType::kCuda);
}

TEST(Accelerator, modules_and_libraries_of_one_type_are_signs) {
  EXPECT_EQ(type_of({"train.py", "lib/torch/xpu/memory.py"}), DeviceType::kXpu);
  EXPECT_EQ(type_of({"C:\\env\\Lib\\torch\\xpu\\memory.py"}), DeviceType::kXpu);
  EXPECT_EQ(type_of({"/env/torch/lib/libtorch_hip.so"}), DeviceType::kHip);
  EXPECT_EQ(type_of({"/env/torch_npu/npu/memory.py"}), DeviceType::kNpu);
  EXPECT_EQ(type_of({"/env/torch/mtia/memory.py"}), DeviceType::kMtia);
}

// ROCm's Python module is torch.cuda, and programs for CUDA may import other modules.
TEST(Accelerator, native_libraries_have_precedence_over_modules) {
  EXPECT_EQ(type_of({"torch/cuda/memory.py", "libc10_hip.so"}), DeviceType::kHip);
  EXPECT_EQ(type_of({"torch/xpu/random.py", "libtorch_cuda.so"}), DeviceType::kCuda);
}

TEST(Accelerator, an_allocator_setting_of_one_type_is_a_sign) {
  EXPECT_EQ(accelerator_of_setting("PYTORCH_HIP_ALLOC_CONF"), DeviceType::kHip);
  EXPECT_EQ(accelerator_of_setting("PYTORCH_NPU_ALLOC_CONF"), DeviceType::kNpu);
  EXPECT_FALSE(accelerator_of_setting("PYTORCH_CUDA_ALLOC_CONF").has_value());
  EXPECT_FALSE(accelerator_of_setting("PYTORCH_ALLOC_CONF").has_value());
  EXPECT_FALSE(accelerator_of_setting("max_split_size").has_value());
}

}  // namespace
}  // namespace plimsoll::readers::torch_snapshot
