#include "findings/allocator/allocator_conf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace plimsoll::findings {
namespace {

using model::DeviceType;
using model::Setting;

// Since PyTorch 2.9 all accelerators read PYTORCH_ALLOC_CONF; some also read an older name.
constexpr const char* kCommonVariable = "PYTORCH_ALLOC_CONF";

struct NamesOfType {
  DeviceType type;
  const char* module;
  const char* tool;
  const char* visible_devices;
  const char* variable;
};
constexpr auto kAcceleratorNames = std::to_array<NamesOfType>({
    {DeviceType::kCuda, "torch.cuda", "nvidia-smi", "CUDA_VISIBLE_DEVICES",
     "PYTORCH_CUDA_ALLOC_CONF"},
    {DeviceType::kHip, "torch.cuda", "rocm-smi", "HIP_VISIBLE_DEVICES", "PYTORCH_HIP_ALLOC_CONF"},
    {DeviceType::kXpu, "torch.xpu", "xpu-smi", "ZE_AFFINITY_MASK", kCommonVariable},
    {DeviceType::kNpu, "torch.npu", "npu-smi", "ASCEND_RT_VISIBLE_DEVICES",
     "PYTORCH_NPU_ALLOC_CONF"},
    {DeviceType::kHpu, "torch.hpu", "hl-smi", "HABANA_VISIBLE_DEVICES", kCommonVariable},
    {DeviceType::kMtia, "torch.mtia", "the device's tools", "its environment variable",
     kCommonVariable},
    {DeviceType::kMps, "torch.mps", "Activity Monitor", "its environment variable",
     kCommonVariable},
    {DeviceType::kOther, "torch.accelerator", "the device's tools", "its environment variable",
     kCommonVariable},
});

// Of the type of the accelerators in the recording; of CUDA if there is none.
const NamesOfType& names_of(const model::Trace& trace) {
  for (const model::DeviceTrace& device : trace.devices) {
    const auto* const of_type =
        std::ranges::find(kAcceleratorNames, device.device.type, &NamesOfType::type);
    if (of_type != kAcceleratorNames.end()) return *of_type;
  }
  return kAcceleratorNames.front();
}

// The value of a key in "key:value,key:[a:1,b:2]"; empty if there is none.
std::string value_of(const std::string& raw, std::string_view key) {
  std::string text = "," + raw;
  std::erase(text, ' ');
  const std::string begin = "," + std::string(key) + ":";
  const std::size_t found = text.find(begin);
  if (found == text.npos) return {};
  const std::string value = text.substr(found + begin.size());
  return value.substr(0, value.find(','));
}

template <typename Number>
Number parsed(const std::string& text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// 0 if the setting is neither a number nor a boolean.
double as_number(const Setting& setting) {
  if (const auto* value = std::get_if<double>(&setting.value)) return *value;
  if (const auto* value = std::get_if<bool>(&setting.value)) return *value ? 1 : 0;
  const auto* value = std::get_if<std::int64_t>(&setting.value);
  return value != nullptr ? static_cast<double>(*value) : 0;
}

// Sizes that are not positive mean "unlimited", and so do those that are larger than any device.
std::optional<std::uint64_t> as_limit(double bytes) {
  constexpr double kLargest = 1e18;
  if (bytes <= 0 || bytes >= kLargest) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

std::string AcceleratorNames::set_expandable_segments() const {
  return "Set " + alloc_conf + "=expandable_segments:True";
}

AcceleratorNames accelerator_names(const model::Trace& trace, const AllocatorConf& conf) {
  const NamesOfType& names = names_of(trace);
  return {names.module, names.tool, names.visible_devices, conf.variable};
}

AllocatorConf allocator_conf(const model::Trace& trace) {
  AllocatorConf conf;
  conf.variable = names_of(trace).variable;
  for (const std::string& name :
       {std::string(kCommonVariable), conf.variable, std::string("PYTORCH_CUDA_ALLOC_CONF")}) {
    const Setting* setting = trace.setting(name);
    if (setting == nullptr) continue;
    conf.variable = name;
    if (const auto* raw = std::get_if<std::string>(&setting->value); raw && !raw->empty()) {
      conf.raw = *raw;
    }
  }
  const std::string expandable = value_of(conf.raw, "expandable_segments");
  conf.asked_for_expandable_segments =
      expandable == "True" || expandable == "true" || expandable == "1";
  // Expandable segments in the trace show it directly.
  conf.expandable_segments = conf.asked_for_expandable_segments ||
                             std::ranges::any_of(trace.segments, &model::Segment::is_expandable);
  conf.max_split_size_bytes = as_limit(
      static_cast<double>(parsed<std::int64_t>(value_of(conf.raw, "max_split_size_mb"))) * 0x1p20);
  conf.garbage_collection_threshold =
      parsed<double>(value_of(conf.raw, "garbage_collection_threshold"));
  // The parsed values are the ones in effect.
  if (const Setting* setting = trace.setting("expandable_segments")) {
    conf.expandable_segments = as_number(*setting) != 0;
  }
  if (const Setting* setting = trace.setting("max_split_size")) {
    conf.max_split_size_bytes = as_limit(as_number(*setting));
  }
  if (const Setting* setting = trace.setting("garbage_collection_threshold")) {
    conf.garbage_collection_threshold = as_number(*setting);
  }
  return conf;
}

}  // namespace plimsoll::findings
