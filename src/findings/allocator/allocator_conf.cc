#include "findings/allocator/allocator_conf.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"

namespace plimsoll::findings {
namespace {

using model::Setting;

bool is_true(std::string_view word) { return word == "True" || word == "true" || word == "1"; }

std::optional<std::uint64_t> as_bytes(std::string_view mebibytes) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(mebibytes.data(), mebibytes.data() + mebibytes.size(), value);
  const bool is_number = error == std::errc{} && end == mebibytes.data() + mebibytes.size();
  constexpr std::uint64_t kMostMib = std::uint64_t{1} << 40;
  if (!is_number || value == 0 || value > kMostMib) return {};
  return value << 20;
}

double as_number(const Setting& setting) {
  if (const auto* value = std::get_if<double>(&setting.value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&setting.value)) {
    return static_cast<double>(*value);
  }
  return 0;
}

void take_raw(AllocatorConf& conf) {
  for (const auto& [name, value] : split_conf(conf.raw)) {
    if (name == "expandable_segments") conf.asked_for_expandable_segments = is_true(value);
    if (name == "max_split_size_mb") conf.max_split_size_bytes = as_bytes(value);
    if (name == "garbage_collection_threshold") {
      const auto* const end = value.data() + value.size();
      std::from_chars(value.data(), end, conf.garbage_collection_threshold);
    }
  }
  conf.expandable_segments = conf.asked_for_expandable_segments;
}

// The parsed values are the ones in effect; -1 means "unlimited".
void take_parsed(const model::Trace& trace, AllocatorConf& conf) {
  if (const Setting* setting = trace.setting("expandable_segments")) {
    const auto* value = std::get_if<bool>(&setting->value);
    conf.expandable_segments = value != nullptr ? *value : as_number(*setting) != 0;
  }
  if (const Setting* setting = trace.setting("max_split_size")) {
    const auto* value = std::get_if<std::int64_t>(&setting->value);
    conf.max_split_size_bytes.reset();
    if (value != nullptr && *value > 0 && *value != INT64_MAX) {
      conf.max_split_size_bytes = static_cast<std::uint64_t>(*value);
    }
  }
  if (const Setting* setting = trace.setting("garbage_collection_threshold")) {
    conf.garbage_collection_threshold = as_number(*setting);
  }
}

// Since PyTorch 2.9 all accelerators read PYTORCH_ALLOC_CONF; CUDA and ROCm also read an older
// name.
std::string variable_of(model::DeviceType type) {
  using model::DeviceType;
  if (type == DeviceType::kCuda) return "PYTORCH_CUDA_ALLOC_CONF";
  if (type == DeviceType::kHip) return "PYTORCH_HIP_ALLOC_CONF";
  if (type == DeviceType::kNpu) return "PYTORCH_NPU_ALLOC_CONF";
  return "PYTORCH_ALLOC_CONF";
}

// The type of the accelerators in the recording; CUDA if there is none.
model::DeviceType accelerator_of(const model::Trace& trace) {
  for (const model::DeviceTrace& device : trace.devices) {
    const auto& known = model::kAccelerators;
    if (std::ranges::find(known, device.device.type) != known.end()) return device.device.type;
  }
  return model::DeviceType::kCuda;
}

struct NamesOfType {
  model::DeviceType type;
  const char* module;
  const char* tool;
  const char* visible_devices;
};
constexpr auto kAcceleratorNames = std::to_array<NamesOfType>({
    {model::DeviceType::kCuda, "torch.cuda", "nvidia-smi", "CUDA_VISIBLE_DEVICES"},
    {model::DeviceType::kHip, "torch.cuda", "rocm-smi", "HIP_VISIBLE_DEVICES"},
    {model::DeviceType::kXpu, "torch.xpu", "xpu-smi", "ZE_AFFINITY_MASK"},
    {model::DeviceType::kNpu, "torch.npu", "npu-smi", "ASCEND_RT_VISIBLE_DEVICES"},
    {model::DeviceType::kHpu, "torch.hpu", "hl-smi", "HABANA_VISIBLE_DEVICES"},
    {model::DeviceType::kMtia, "torch.mtia", "the device's tools", "its environment variable"},
    {model::DeviceType::kMps, "torch.mps", "Activity Monitor", "its environment variable"},
    {model::DeviceType::kOther, "torch.accelerator", "the device's tools",
     "its environment variable"},
});

}  // namespace

std::string AcceleratorNames::set_expandable_segments() const {
  return "Set " + alloc_conf + "=expandable_segments:True";
}

AcceleratorNames accelerator_names(const model::Trace& trace, const AllocatorConf& conf) {
  const auto* const of_type =
      std::ranges::find(kAcceleratorNames, accelerator_of(trace), &NamesOfType::type);
  PLIMSOLL_CHECK(of_type != kAcceleratorNames.end());
  return {of_type->module, of_type->tool, of_type->visible_devices, conf.variable};
}

std::vector<std::pair<std::string, std::string>> split_conf(std::string_view raw) {
  std::vector<std::pair<std::string, std::string>> items;
  std::string name, value;
  bool in_value = false;
  int depth = 0;
  const auto finish = [&] {
    if (in_value && !name.empty()) items.emplace_back(name, value);
    name.clear(), value.clear();
    in_value = false;
  };
  for (const char c : raw) {
    if (c == ' ') continue;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0) {
      finish();
    } else if (c == ':' && !in_value) {
      in_value = true;
    } else {
      (in_value ? value : name) += c;
    }
  }
  finish();
  return items;
}

AllocatorConf allocator_conf(const model::Trace& trace) {
  AllocatorConf conf;
  conf.is_known = trace.has_settings;
  conf.variable = variable_of(accelerator_of(trace));
  for (const std::string& name :
       {std::string("PYTORCH_ALLOC_CONF"), conf.variable, std::string("PYTORCH_CUDA_ALLOC_CONF")}) {
    const Setting* setting = trace.setting(name);
    if (setting == nullptr) continue;
    conf.variable = name;
    if (const auto* raw = std::get_if<std::string>(&setting->value); raw && !raw->empty()) {
      conf.raw = *raw;
    }
  }
  take_raw(conf);
  // Expandable segments in the trace show it directly.
  conf.expandable_segments = conf.expandable_segments ||
                             std::ranges::any_of(trace.segments, &model::Segment::is_expandable);
  take_parsed(trace, conf);
  return conf;
}

}  // namespace plimsoll::findings
