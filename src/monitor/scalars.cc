#include "monitor/scalars.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/device_bar.h"
#include "monitor/words.h"

namespace plimsoll::monitor {
namespace {

constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;
constexpr std::string_view kNoLayer = "(none)";

double percent(std::uint64_t part, std::uint64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// A module and its children's children, as one: "unet.down" of "unet.down.1.conv".
std::string component_of(const std::string& layer) {
  if (layer.empty()) return std::string(kNoLayer);
  const std::size_t child = layer.find('.');
  if (child == std::string::npos) return layer;
  return layer.substr(0, layer.find('.', child + 1));
}

class Tags {
 public:
  explicit Tags(const ScalarOptions& options) : options_(options) {}

  void add(const std::string& name, double value) {
    scalars_.push_back({one_line(prefix_ + name), value});
  }
  void add_mb(const std::string& name, const std::optional<std::uint64_t>& bytes) {
    if (bytes) add(name, to_mb(*bytes));
  }
  // In GB below its name, as its users know it, and in bytes beside it.
  void add_size(const std::string& name, double bytes) {
    add(name, bytes / kBytesPerGb);
    add(name + "_bytes", bytes);
  }
  void add_size(const std::string& name, const std::optional<std::uint64_t>& bytes) {
    if (bytes) add_size(name, static_cast<double>(*bytes));
  }
  // "" for the tags without a device.
  void speak_of(const std::string& device) {
    prefix_ = options_.section + "/" + (device.empty() ? "" : device + "/");
  }
  void add_tensors(const DeviceMemory& device);
  void add_allocator(const DeviceMemory& device);
  void add_host(const HostMemory& host);

  std::vector<Scalar> take() { return std::move(scalars_); }

 private:
  void add_categories(const std::vector<MemoryShare>& categories);
  void add_components(const std::vector<MemoryShare>& layers);

  const ScalarOptions& options_;
  std::string prefix_;
  std::vector<Scalar> scalars_;
};

void Tags::add_categories(const std::vector<MemoryShare>& categories) {
  const auto way_of = [](std::string_view category) {
    return std::ranges::find(kFiveWays, category, [](const auto& way) { return way.first; });
  };
  std::map<std::string_view, std::uint64_t> five;
  std::map<std::string_view, std::uint64_t> others;  // what "other" is made of
  for (const std::string_view category : kCategories) {
    if (way_of(category) == kFiveWays.end()) others[category] = 0;
  }
  for (const MemoryShare& share : categories) {
    const auto way = way_of(share.name);
    if (way == kFiveWays.end()) others[share.name] += share.size_bytes;
    five[way == kFiveWays.end() ? "other" : way->second] += share.size_bytes;
  }
  for (const auto& [category, word] : kFiveWays) {
    add_mb("Tensor_Category/" + std::string(word) + "_MB", five[word]);
  }
  for (const auto& [category, bytes] : others) {
    add_mb("Tensor_Other/" + std::string(category) + "_MB", bytes);
  }
}

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

// Live tensors; nothing where nobody counted them.
void Tags::add_tensors(const DeviceMemory& device) {
  if (device.categories.empty()) return;
  add_categories(device.categories);
  for (const MemoryShare& dtype : device.dtypes) {
    add_mb("Tensor_DType/" + dtype.name + "_MB", dtype.size_bytes);
  }
  add("Large_Tensors/count", static_cast<double>(device.large_count));
  add_mb("Large_Tensors/total_MB", device.large_bytes);
  add("Tensor_Count/total", static_cast<double>(device.live_count));
  add_components(device.layers);
}

void Tags::add_allocator(const DeviceMemory& device) {
  if (const auto ratio = fragmentation_ratio(device)) add("fragmentation_percent", *ratio * 100.0);
  add_size("vram_allocated", device.allocated_bytes);
  add_size("vram_reserved", device.reserved_bytes);
  add_size("vram_peak", device.peak_bytes);
  add_size("vram_used", device.used_bytes);
  if (device.bar) {
    // Below zero where the figures do not agree.
    if (const auto bytes = base::outside_bytes(*device.bar)) {
      add_size("vram_non_pytorch", static_cast<double>(*bytes));
    }
  }
  if (device.used_bytes && device.total_bytes && *device.total_bytes > 0) {
    add("vram_percent", percent(*device.used_bytes, *device.total_bytes));
  }
}

void Tags::add_host(const HostMemory& host) {
  add_size("ram_process", host.rss_bytes);
  add_size("ram_used", host.used_bytes);
  if (host.used_bytes && host.total_bytes && *host.total_bytes > 0) {
    add("ram_percent", percent(*host.used_bytes, *host.total_bytes));
  }
  if (host.cpu_percent) add("cpu_percent", *host.cpu_percent);
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

// The sum of what is known of all devices; what one of them does not tell, the sum does not.
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
  for (const DeviceMemory* device : devices) {
    all.live_bytes += device->live_bytes;
    all.live_count += device->live_count;
    all.large_count += device->large_count;
    all.large_bytes += device->large_bytes;
  }
  for (const auto member :
       {&DeviceMemory::categories, &DeviceMemory::dtypes, &DeviceMemory::layers}) {
    all.*member = shares_together(devices, member);
  }
  for (const auto member : {&DeviceMemory::allocated_bytes, &DeviceMemory::reserved_bytes,
                            &DeviceMemory::used_bytes, &DeviceMemory::total_bytes}) {
    all.*member = sum(devices, member);
  }
  // Peaks of several devices need not be at one time, and each has a bar of its own.
  if (devices.size() == 1) all.peak_bytes = devices.front()->peak_bytes;
  if (devices.size() == 1) all.bar = devices.front()->bar;
  return all;
}

}  // namespace

std::vector<Scalar> scalars_of(const MemorySample& sample, const ScalarOptions& options) {
  std::vector<const DeviceMemory*> accelerators;
  const DeviceMemory* cpu = nullptr;
  for (const DeviceMemory& device : sample.devices) {
    if (is_cpu(device.name)) {
      cpu = &device;
    } else {
      accelerators.push_back(&device);
    }
  }
  Tags tags(options);
  tags.speak_of("");
  if (!accelerators.empty()) {
    const DeviceMemory all = together(accelerators);
    tags.add_tensors(all);
    tags.add_allocator(all);
  } else if (cpu != nullptr) {
    tags.add_tensors(*cpu);
  }
  if (cpu != nullptr && !cpu->categories.empty())
    tags.add_size("cpu_allocated", std::optional(cpu->live_bytes));
  if (cpu != nullptr) tags.add_size("cpu_peak", cpu->peak_bytes);
  tags.add_host(sample.host);
  if (sample.loss) tags.add("loss", *sample.loss);

  if (accelerators.size() > 1) {
    for (const DeviceMemory* device : accelerators) {
      tags.speak_of(device->name);
      tags.add_tensors(*device);
      tags.add_allocator(*device);
    }
  }
  if (!accelerators.empty() && cpu != nullptr) {
    tags.speak_of(cpu->name);
    tags.add_tensors(*cpu);
  }
  return tags.take();
}

}  // namespace plimsoll::monitor
