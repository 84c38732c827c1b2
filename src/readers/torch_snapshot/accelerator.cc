#include "readers/torch_snapshot/accelerator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace plimsoll::readers::torch_snapshot {
namespace {

using model::DeviceType;

struct Sign {
  std::string_view text;  // in a file or function of a stack
  DeviceType type;
};

// Native libraries come first. ROCm's Python module is also called torch.cuda, so its files prove
// nothing. CUDA's namespaces also appear in builds for ROCm, so hip has precedence.
constexpr auto kSigns = std::to_array<Sign>({
    {"libtorch_hip", DeviceType::kHip},
    {"libc10_hip", DeviceType::kHip},
    {"HIPCachingAllocator", DeviceType::kHip},
    {"c10::hip::", DeviceType::kHip},
    {"libtorch_cuda", DeviceType::kCuda},
    {"libc10_cuda", DeviceType::kCuda},
    {"c10::cuda::", DeviceType::kCuda},
    {"libtorch_xpu", DeviceType::kXpu},
    {"libc10_xpu", DeviceType::kXpu},
    {"c10::xpu::", DeviceType::kXpu},
    {"torch/xpu/", DeviceType::kXpu},
    {"torch_npu/", DeviceType::kNpu},
    {"libtorch_npu", DeviceType::kNpu},
    {"habana_frameworks/", DeviceType::kHpu},
    {"torch/mtia/", DeviceType::kMtia},
});

// Windows paths have backslashes.
bool contains(std::string_view text, std::string_view part) {
  if (text.find('\\') == text.npos) return text.find(part) != text.npos;
  const auto is_same = [](char a, char b) { return a == b || (a == '\\' && b == '/'); };
  return std::ranges::search(text, part, is_same).begin() != text.end();
}

}  // namespace

DeviceType accelerator_of_stacks(const model::StringTable& strings,
                                 const model::StackTable& stacks) {
  std::vector<bool> is_known(strings.size());
  std::size_t best = kSigns.size();
  for (std::size_t row = 0; row < stacks.frame_count() && best > 0; ++row) {
    const model::Frame& frame = stacks.frame(model::FrameId{static_cast<std::uint32_t>(row)});
    for (const model::StringId id : {frame.file, frame.function}) {
      if (is_known[id.index()]) continue;
      is_known[id.index()] = true;
      for (std::size_t sign = 0; sign < best; ++sign) {
        if (contains(strings[id], kSigns[sign].text)) best = sign;
      }
    }
  }
  return best == kSigns.size() ? DeviceType::kCuda : kSigns[best].type;
}

std::optional<DeviceType> accelerator_of_setting(std::string_view name) {
  if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF") return std::nullopt;
  for (const DeviceType type : model::kAccelerators) {
    std::string prefix = "PYTORCH_";
    for (const char letter : name_of(type)) prefix += static_cast<char>(letter - 'a' + 'A');
    if (name == prefix + "_ALLOC_CONF") return type;
  }
  return std::nullopt;
}

}  // namespace plimsoll::readers::torch_snapshot
