#include "tensorboard/scalars.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/categories.h"
#include "sample/names.h"
#include "sample/sample_fields.h"

namespace plimsoll::tensorboard {
namespace {

constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;
constexpr std::string_view kNoLayer = "(none)";

// A layer's name shortened to two components: "unet.down" for "unet.down.1.conv".
std::string component_of(const std::string& layer) {
  if (layer.empty()) return std::string(kNoLayer);
  const std::size_t child = layer.find('.');
  if (child == std::string::npos) return layer;
  return layer.substr(0, layer.find('.', child + 1));
}

constexpr std::string_view kOther = "other";

// The name of a category in the five-way view.
std::string_view way_of(std::string_view category) {
  const auto way =
      std::ranges::find(sample::kFiveWays, category, [](const auto& each) { return each.first; });
  return way == sample::kFiveWays.end() ? kOther : way->second;
}

// The tags that most users need come first.
class Tags {
 public:
  explicit Tags(const ScalarOptions& options) : options_(options) {}

  void add(const std::string& name, double value) {
    scalars_.push_back({sample::one_line(prefix_ + name), value});
  }
  void add_mb(const std::string& name, const std::optional<std::uint64_t>& bytes) {
    if (bytes) add(name, sample::to_mb(*bytes));
  }
  void add_size(const std::string& name, double bytes) { add(name, bytes / kBytesPerGb); }
  void add_size(const std::string& name, const std::optional<std::uint64_t>& bytes) {
    if (bytes) add_size(name, static_cast<double>(*bytes));
  }
  // "" selects the tags without a device.
  void set_device(const std::string& device) {
    prefix_ = options_.section + "/" + (device.empty() ? "" : device + "/");
  }
  void add_breakdown(const DeviceMemory& device);
  void add_details(const DeviceMemory& device);
  template <typename Owner>
  void add_figures(const Owner& owner);  // the figures that have a tag

  std::vector<Scalar> take() { return std::move(scalars_); }

 private:
  void add_components(const std::vector<MemoryShare>& layers);
  void add_peak(const DeviceMemory& device);

  const ScalarOptions& options_;
  std::string prefix_;
  std::vector<Scalar> scalars_;
};

void Tags::add_components(const std::vector<MemoryShare>& layers) {
  std::map<std::string, std::uint64_t> bytes_of;
  for (const MemoryShare& layer : layers) bytes_of[component_of(layer.name)] += layer.size_bytes;
  bytes_of.erase(std::string(kNoLayer));
  std::vector<std::pair<std::string, std::uint64_t>> largest(bytes_of.begin(), bytes_of.end());
  std::ranges::sort(largest, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (largest.size() > options_.top_layers) largest.resize(options_.top_layers);
  for (const auto& [component, bytes] : largest) add_mb("Tensor_Layer/" + component + "_MB", bytes);
}

// Live tensors in five categories, by dtype, and the large ones; nothing if they were not counted.
void Tags::add_breakdown(const DeviceMemory& device) {
  if (device.categories.empty()) return;
  std::map<std::string_view, std::uint64_t> five;
  for (const MemoryShare& share : device.categories) five[way_of(share.name)] += share.size_bytes;
  for (const auto& [category, word] : sample::kFiveWays) {
    add_mb("Tensor_Category/" + std::string(word) + "_MB", five[word]);
  }
  for (const MemoryShare& dtype : device.dtypes) {
    add_mb("Tensor_DType/" + dtype.name + "_MB", dtype.size_bytes);
  }
  add("Large_Tensors/count", static_cast<double>(device.large_count));
  add_mb("Large_Tensors/total_MB", device.large_bytes);
  add_peak(device);
}

// What the peak since the previous sample was made of, and its largest tensor.
void Tags::add_peak(const DeviceMemory& device) {
  if (device.at_peak.empty()) return;
  std::map<std::string_view, std::uint64_t> five;
  for (const MemoryShare& share : device.at_peak) five[way_of(share.name)] += share.size_bytes;
  for (const auto& [category, word] : sample::kFiveWays) {
    add_mb("Peak_Category/" + std::string(word) + "_MB", five[word]);
  }
  if (device.peak_tensors.empty()) return;
  add_mb("Peak_Tensors/largest_MB", device.peak_tensors.front().size_bytes);
}

// The parts of "other", the number of tensors, and the largest modules.
void Tags::add_details(const DeviceMemory& device) {
  if (device.categories.empty()) return;
  std::map<std::string_view, std::uint64_t> parts;
  for (std::size_t number = 0; number < base::kCategoryNames.size(); ++number) {
    const auto category = static_cast<base::Category>(number);
    const bool is_part = base::is_found_live(category) && way_of(name_of(category)) == kOther;
    if (is_part) parts[name_of(category)] = 0;
  }
  for (const MemoryShare& share : device.categories) {
    if (way_of(share.name) == kOther) parts[share.name] += share.size_bytes;
  }
  for (const auto& [category, bytes] : parts) {
    add_mb("Tensor_Other/" + std::string(category) + "_MB", bytes);
  }
  add("Tensor_Count/total", static_cast<double>(device.live_count));
  add_mb("Tensor_Unused/total_MB", device.unused_bytes);
  std::map<std::string, MemoryShare> components;
  for (const MemoryShare& share : device.components) {
    MemoryShare& component = components[share.name.substr(0, share.name.rfind('/'))];
    component.size_bytes += share.size_bytes;
    ++component.count;
    add_mb("Tensor_Component/" + share.name + "_MB", share.size_bytes);
  }
  for (const auto& [name, component] : components) {
    if (component.count > 1) add_mb("Tensor_Component/" + name + "_MB", component.size_bytes);
  }
  add_components(device.layers);
}

template <typename Owner>
void Tags::add_figures(const Owner& owner) {
  sample::for_each_figure<Owner>([&](const auto& figure) {
    if (figure.uses.tag == nullptr) return;
    const auto value = sample::figure_value(figure, owner);
    if (!value) return;
    sample::is_size(figure) ? add_size(figure.uses.tag, *value) : add(figure.uses.tag, *value);
  });
}

std::vector<MemoryShare> shares_together(const std::vector<const DeviceMemory*>& devices,
                                         std::vector<MemoryShare> DeviceMemory::* member) {
  std::map<std::string_view, MemoryShare> by_name;
  for (const DeviceMemory* device : devices) {
    for (const MemoryShare& share : device->*member) {
      MemoryShare& all = by_name[share.name];
      all.size_bytes += share.size_bytes;
      all.count += share.count;
    }
  }
  std::vector<MemoryShare> shares;
  for (auto& [name, share] : by_name) {
    share.name = name;
    shares.push_back(std::move(share));
  }
  return shares;
}

// The sum over all devices with a known value.
std::optional<std::uint64_t> sum(const std::vector<const DeviceMemory*>& devices,
                                 std::optional<std::uint64_t> DeviceMemory::* member) {
  std::uint64_t bytes = 0;
  for (const DeviceMemory* device : devices) {
    if (!(device->*member)) return std::nullopt;
    bytes += *(device->*member);
  }
  return bytes;
}

DeviceMemory together(const std::vector<const DeviceMemory*>& devices) {
  DeviceMemory all;
  sample::for_each_field<DeviceMemory>([&](const auto& field) {
    auto& member = all.*field.member;
    using Type = std::remove_cvref_t<decltype(member)>;
    if (!field.uses.is_summed) {
      if (devices.size() == 1) member = devices.front()->*field.member;
    } else if constexpr (std::is_same_v<Type, std::vector<MemoryShare>>) {
      member = shares_together(devices, field.member);
    } else if constexpr (std::is_same_v<Type, std::optional<std::uint64_t>>) {
      member = sum(devices, field.member);
    } else if constexpr (std::is_same_v<Type, std::uint64_t>) {
      for (const DeviceMemory* device : devices) member += device->*field.member;
    }
  });
  return all;
}

}  // namespace

std::vector<Scalar> scalars_of(const MemorySample& sample, const ScalarOptions& options) {
  std::vector<const DeviceMemory*> accelerators;
  const DeviceMemory* cpu = nullptr;
  for (const DeviceMemory& device : sample.devices) {
    if (sample::is_cpu(device.name)) {
      cpu = &device;
    } else {
      accelerators.push_back(&device);
    }
  }
  Tags tags(options);
  tags.set_device("");
  if (!accelerators.empty()) {
    const DeviceMemory all = together(accelerators);
    tags.add_breakdown(all);
    tags.add_figures(all);
    tags.add_details(all);
  } else if (cpu != nullptr) {
    tags.add_breakdown(*cpu);
    tags.add_details(*cpu);
  }
  if (cpu != nullptr && !cpu->categories.empty())
    tags.add_size("cpu_allocated", std::optional(cpu->live_bytes));
  if (cpu != nullptr) tags.add_size("cpu_peak", cpu->peak_bytes);
  tags.add_figures(sample.host);
  if (sample.loss) tags.add("loss", *sample.loss);

  if (accelerators.size() > 1) {
    for (const DeviceMemory* device : accelerators) {
      tags.set_device(device->name);
      tags.add_breakdown(*device);
      tags.add_figures(*device);
      tags.add_details(*device);
    }
  }
  if (!accelerators.empty() && cpu != nullptr) {
    tags.set_device(cpu->name);
    tags.add_breakdown(*cpu);
    tags.add_details(*cpu);
  }
  return tags.take();
}

std::vector<Scalar> ScalarSeries::next(const MemorySample& sample) {
  std::vector<Scalar> scalars = scalars_of(sample, options_);
  const bool has_accelerators = std::ranges::any_of(
      sample.devices, [](const DeviceMemory& device) { return !sample::is_cpu(device.name); });
  const std::string section = sample::one_line(options_.section);
  const std::array prefixes = {section + "/cpu/", section + "/cpu_allocated",
                               section + "/cpu_peak"};
  std::erase_if(scalars, [&](const Scalar& scalar) {
    const bool is_of_cpu = has_accelerators && std::ranges::any_of(prefixes, [&](const auto& each) {
                             return scalar.tag.starts_with(each);
                           });
    const bool is_part = scalar.tag.find("/Tensor_Other/") != std::string::npos;
    if ((!is_of_cpu && !is_part) || seen_.contains(scalar.tag)) return false;
    if (scalar.value == 0) return true;
    seen_.insert(scalar.tag);
    return false;
  });
  return scalars;
}

}  // namespace plimsoll::tensorboard
