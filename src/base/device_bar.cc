#include "base/device_bar.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace plimsoll::base {
namespace {

constexpr std::size_t kMostProcesses = 5;  // listed individually

// Real byte counts are far below 2^63. Values in a hostile file may wrap, and the parts still sum.
std::int64_t as_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

class Parts {
 public:
  explicit Parts(DeviceBar& bar) : bar_(bar), left_(bar.used_bytes) {}

  void add(DevicePart part) {
    left_ -= static_cast<std::uint64_t>(part.size_bytes);
    bar_.parts.push_back(std::move(part));
  }
  void add(std::string_view kind, std::uint64_t bytes) {
    add(DevicePart{.kind = std::string(kind), .size_bytes = as_signed(bytes)});
  }
  // Used bytes that no part covers yet.
  void finish(DevicePart rest) {
    rest.size_bytes = as_signed(left_);
    bar_.parts.push_back(std::move(rest));
  }

 private:
  DeviceBar& bar_;
  std::uint64_t left_;
};

void add_own(const DeviceFigures& figures, Parts& parts) {
  const std::uint64_t reserved =
      figures.reserved_bytes.value_or(figures.allocated_bytes.value_or(0));
  if (figures.allocated_bytes) {
    parts.add("tensors", *figures.allocated_bytes);
    parts.add("cached", reserved - *figures.allocated_bytes);
  } else if (figures.reserved_bytes) {
    parts.add("cached", reserved);
  }
  // Memory reserved since the driver was queried may exceed its figure; the allocator's figure is
  // newer.
  if (figures.own_bytes.value_or(0) <= reserved) return;
  std::uint64_t outside = *figures.own_bytes - reserved;
  // A context larger than everything else was measured together with another part.
  if (figures.context_bytes && *figures.context_bytes <= outside) {
    parts.add("context", *figures.context_bytes);
    outside -= *figures.context_bytes;
  }
  parts.add(DevicePart{
      .kind = "outside", .size_bytes = as_signed(outside), .name = figures.has_nccl ? "NCCL" : ""});
}

void add_processes(std::vector<DeviceProcess> processes, Parts& parts) {
  std::erase_if(processes, [](const DeviceProcess& process) { return !process.used_bytes; });
  std::ranges::stable_sort(processes, std::ranges::greater(), &DeviceProcess::used_bytes);
  DevicePart rest{.kind = "process"};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const std::int64_t bytes = as_signed(*processes[i].used_bytes);
    if (i < kMostProcesses) {
      parts.add(DevicePart{.kind = "process",
                           .size_bytes = bytes,
                           .pid = processes[i].pid,
                           .count = 1,
                           .name = std::move(processes[i].name)});
    } else {
      rest.size_bytes = as_signed(static_cast<std::uint64_t>(rest.size_bytes) +
                                  static_cast<std::uint64_t>(bytes));
      ++rest.count;
    }
  }
  if (rest.count > 0) parts.add(std::move(rest));
}

DevicePart what_is_left(const DeviceFigures& figures) {
  if (!figures.own_bytes) return {.kind = "not_reported"};
  const auto unreported = std::ranges::count_if(
      figures.processes, [](const DeviceProcess& process) { return !process.used_bytes; });
  if (unreported > 0 || !figures.reports_processes)
    return {.kind = "others", .count = static_cast<std::uint64_t>(unreported)};
  return {.kind = "unexplained"};
}

}  // namespace

std::optional<DeviceBar> device_bar(const DeviceFigures& figures) {
  if (!figures.total_bytes || !figures.free_bytes || *figures.free_bytes > *figures.total_bytes)
    return std::nullopt;
  DeviceBar bar{.used_bytes = *figures.total_bytes - *figures.free_bytes,
                .total_bytes = *figures.total_bytes};
  Parts parts(bar);
  add_own(figures, parts);
  add_processes(figures.processes, parts);
  if (figures.driver_bytes) parts.add("driver", *figures.driver_bytes);
  parts.finish(what_is_left(figures));
  return bar;
}

std::string part_label(const DevicePart& part) {
  if (part.kind == "context") return "CUDA context and modules";
  if (part.kind == "outside") {
    return part.name.empty() ? "outside PyTorch's allocator"
                             : part.name + " and others outside PyTorch's allocator";
  }
  if (part.kind == "process") {
    if (part.pid == 0)
      return format_count(part.count) + (part.count == 1 ? " more process" : " more processes");
    return "process " + std::to_string(part.pid) + (part.name.empty() ? "" : " " + part.name);
  }
  if (part.kind == "driver") return "the driver itself";
  if (part.kind == "not_reported") return "outside PyTorch's allocator (this process or others)";
  if (part.kind == "others") {
    const std::string some = part.count == 0 ? "" : format_count(part.count) + " ";
    return some + (part.count == 1 ? "process" : "processes") + " whose bytes are not reported";
  }
  return part.kind;
}

std::string parts_text(const DeviceBar& bar) {
  std::string text;
  for (const DevicePart& part : bar.parts) {
    if (part.size_bytes == 0) continue;
    if (!text.empty()) text += ", ";
    if (part.size_bytes < 0) {
      text += "less " + bytes_text(as_signed(0 - static_cast<std::uint64_t>(part.size_bytes))) +
              " by which the figures disagree";
    } else {
      text += part_label(part) + " " + bytes_text(part.size_bytes);
    }
  }
  return text;
}

std::optional<std::int64_t> outside_bytes(const DeviceBar& bar) {
  bool is_known = false;
  std::uint64_t bytes = bar.used_bytes;
  for (const DevicePart& part : bar.parts) {
    if (part.kind != "tensors" && part.kind != "cached") continue;
    is_known = true;
    bytes -= static_cast<std::uint64_t>(part.size_bytes);
  }
  if (!is_known) return std::nullopt;
  return as_signed(bytes);
}

}  // namespace plimsoll::base
