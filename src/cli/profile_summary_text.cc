#include "cli/profile_summary_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sample/names.h"
#include "text/layout.h"

namespace plimsoll::cli {
namespace {

using logs::DeviceSummary;
using logs::Figure;
using logs::ShareSummary;
using Shares = std::vector<std::pair<std::string, std::uint64_t>>;

constexpr std::size_t kRuleWidth = 80;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

const Figure* find(const DeviceSummary& device, std::string_view name) {
  const auto found = std::ranges::find(device.figures, name, &Figure::name);
  return found == device.figures.end() || !found->start || !found->end ? nullptr : &*found;
}

std::string line_of(std::string_view title, const Figure* figure, double unit, const char* format) {
  if (figure == nullptr) return "";
  std::string text(title);
  text.resize(std::max<std::size_t>(text.size(), 26), ' ');
  return text + "Start: " + formatted(format, *figure->start / unit) +
         "  \u2192  End: " + formatted(format, *figure->end / unit) + "\n";
}

// The log's categories, the common ones with the names of the five-way view. No other is folded
// into "other", which then is the same as in the tables below.
Shares categories_of(const std::vector<ShareSummary>& categories) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const ShareSummary& share : categories) {
    const auto way = std::ranges::find(sample::kFiveWays, std::string_view(share.name),
                                       [](const auto& pair) { return pair.first; });
    bytes[way == sample::kFiveWays.end() ? std::string_view(share.name) : way->second] +=
        share.end_bytes;
  }
  return {bytes.begin(), bytes.end()};
}

Shares dtypes_of(const DeviceSummary& device) {
  Shares shares;
  for (const ShareSummary& share : device.dtypes) shares.emplace_back(share.name, share.end_bytes);
  return shares;
}

// "  parameters     :   5224.7 MiB  ( 64.1%)", largest first.
std::string list_of(std::string_view title, Shares shares) {
  std::uint64_t total = 0;
  for (const auto& share : shares) total += share.second;
  if (total == 0) return "";
  std::ranges::stable_sort(shares, std::ranges::greater{}, &Shares::value_type::second);
  std::string text = "\n" + std::string(title) + " (at end):\n";
  for (const auto& [name, bytes] : shares) {
    if (bytes == 0) continue;
    const double share = 100 * static_cast<double>(bytes) / static_cast<double>(total);
    std::string shown = text::printable(name.empty() ? "(none)" : name);
    shown.resize(std::max<std::size_t>(shown.size(), 15), ' ');
    text += "  " + shown + ": " + formatted("%8.1f MiB", sample::to_mb(bytes)) + "  (" +
            formatted("%5.1f%%", share) + ")\n";
  }
  return text;
}

std::string block_of(const logs::LogSummary& summary, const DeviceSummary& device,
                     const std::string& heading) {
  const std::string rule(kRuleWidth, '=');
  std::string text = "\n" + rule + "\n" + heading + "\n" + rule + "\n\n";
  if (summary.first_iteration && summary.last_iteration) {
    text += "Iteration Range: " + std::to_string(*summary.first_iteration) + " - " +
            std::to_string(*summary.last_iteration) + "\n";
  }
  text += "Total Snapshots: " + std::to_string(device.snapshots) + "\n\n";
  constexpr double kMb = sample::kBytesPerMb;
  const Figure* const allocated = find(device, "allocated_bytes");
  text +=
      line_of("Memory Allocated:", allocated == nullptr ? find(device, "tensor_bytes") : allocated,
              kMb, "%.1f MiB");
  text += line_of("Memory Reserved:", find(device, "reserved_bytes"), kMb, "%.1f MiB");
  text += line_of("Fragmentation:", find(device, "fragmentation_percent"), 1, "%.1f%%");
  text += line_of("Unused for Two Steps:", find(device, "unused_bytes"), kMb, "%.1f MiB");
  text += line_of("Total Tensors:", find(device, "tensors"), 1, "%.0f");
  text += list_of("Tensor Categories", categories_of(device.categories));
  text += list_of("Data Types", dtypes_of(device));
  const Figure* const large = find(device, "large_tensors");
  if (large != nullptr && device.large_tensor_bytes) {
    text += "\nLarge Tensors (>" + formatted("%.5g", sample::to_mb(*device.large_tensor_bytes)) +
            " MiB): " + formatted("%.0f", *large->end) + "\n";
  }
  return text;
}

}  // namespace

std::string profile_summary_text(const logs::LogSummary& summary) {
  std::vector<const DeviceSummary*> shown;
  const bool has_accelerator = std::ranges::any_of(
      summary.devices, [](const auto& device) { return !sample::is_cpu(device.device); });
  for (const DeviceSummary& device : summary.devices) {
    if (has_accelerator && sample::is_cpu(device.device)) continue;
    if (!device.categories.empty() || find(device, "allocated_bytes") != nullptr) {
      shown.push_back(&device);
    }
  }
  std::string text;
  for (const DeviceSummary* const device : shown) {
    const std::string heading = "TENSOR PROFILING SUMMARY";
    const std::string name = shown.size() == 1 ? "" : ": " + text::printable(device->device);
    text += block_of(summary, *device, heading + name);
  }
  return text;
}

}  // namespace plimsoll::cli
