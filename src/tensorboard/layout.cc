#include "tensorboard/layout.h"

#include <string_view>

#include "sample/names.h"
#include "tensorboard/protobuf.h"

namespace plimsoll::tensorboard {
namespace {

// A regular expression that matches only this text, in JavaScript and in Python.
std::string literal(std::string_view text) {
  std::string pattern;
  for (const char letter : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

// layout.proto: Chart has 1 title, 2 multiline {1 tag}.
std::string chart_message(const Chart& chart) {
  std::string lines;
  for (const std::string& tag : chart.tags) put_bytes(lines, 1, tag);
  std::string message;
  put_bytes(message, 1, chart.title);
  put_bytes(message, 2, lines);
  return message;
}

}  // namespace

std::vector<ChartGroup> layout_of(const MemorySample& sample, const std::string& section) {
  std::vector<std::string> accelerators;
  for (const DeviceMemory& device : sample.devices) {
    if (!sample::is_cpu(device.name)) accelerators.push_back(sample::one_line(device.name));
  }
  const std::string prefix = literal(sample::one_line(section)) + "/";
  const auto one = [&](const std::string& title, const std::string& tags) {
    return Chart{title, {prefix + tags + "$"}};
  };
  const bool has_accelerators = !accelerators.empty();
  const char* const sizes =
      has_accelerators ? "vram_(allocated|reserved|peak)" : "cpu_(allocated|peak)";
  std::vector<ChartGroup> groups;
  groups.push_back(
      {"Memory",
       {one("Tensors by category, MB", "Tensor_Category/.*_MB"),
        one(has_accelerators ? "Allocated, reserved and peak, GB" : "Allocated and peak, GB",
            sizes)}});
  if (accelerators.size() > 1) {
    ChartGroup each{"Each device", {}};
    for (const std::string& device : accelerators) {
      each.charts.push_back(
          one(device + ": tensors by category, MB", literal(device) + "/Tensor_Category/.*_MB"));
      each.charts.push_back(
          one(device + ": allocated, reserved and peak, GB", literal(device) + "/" + sizes));
    }
    groups.push_back(std::move(each));
  }
  groups.push_back({"Tensors",
                    {one("The peak by category, MB", "Peak_Category/.*_MB"),
                     one("By dtype, MB", "Tensor_DType/.*_MB"),
                     one("Large tensors, MB", "Large_Tensors/total_MB"),
                     one("By module, MB", "Tensor_Layer/.*_MB"),
                     one("Other and its parts, MB", "Tensor_(Other/.*|Category/other)_MB")}});
  ChartGroup machine{"Device and machine", {}};
  if (has_accelerators) {
    machine.charts.push_back(one("Fragmentation and use of the device, percent",
                                 "(fragmentation_percent|vram_percent)"));
    machine.charts.push_back(one("Use of the device, GB", "vram_(used|non_pytorch)"));
  }
  machine.charts.push_back(
      one("Memory of the process and the machine, GB", "ram_(process|workers|used)"));
  groups.push_back(std::move(machine));
  return groups;
}

std::string layout_message(const std::vector<ChartGroup>& groups) {
  std::string message;  // Layout: 2 category {1 title, 2 chart}
  for (const ChartGroup& group : groups) {
    std::string category;
    put_bytes(category, 1, group.title);
    for (const Chart& chart : group.charts) put_bytes(category, 2, chart_message(chart));
    put_bytes(message, 2, category);
  }
  return message;
}

}  // namespace plimsoll::tensorboard
