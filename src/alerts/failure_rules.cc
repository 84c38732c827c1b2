// An iteration that failed with out of memory: which device ran out, and the finding about it.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "alerts/detection_rules.h"
#include "base/units.h"
#include "sample/names.h"
#include "sample/quantities.h"

namespace plimsoll::alerts {
namespace {

// The number in "GPU 1 has a total capacity of ..."; older versions write "(GPU 1; 15.78 GiB
// total".
std::optional<int> gpu_in(std::string_view error) {
  constexpr std::string_view kGpu = "GPU ";
  for (std::size_t at = error.find(kGpu); at != error.npos; at = error.find(kGpu, at + 1)) {
    const std::string_view rest = error.substr(at + kGpu.size());
    int number = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), number).ec == std::errc{} &&
        number >= 0)
      return number;
  }
  return std::nullopt;
}

bool is_of_the_cpu(std::string_view error) {
  return error.starts_with("MemoryError") || error.find("DefaultCPUAllocator") != error.npos ||
         error.find("can't allocate memory") != error.npos || error == "std::bad_alloc";
}

double used_share(const DeviceMemory& device) {
  if (!device.total_bytes || *device.total_bytes == 0) return 0;
  return static_cast<double>(device.used_bytes.value_or(0)) /
         static_cast<double>(*device.total_bytes);
}

bool is_less_full(const DeviceMemory& a, const DeviceMemory& b) {
  return std::tuple(!sample::is_cpu(a.name), used_share(a), a.live_bytes) <
         std::tuple(!sample::is_cpu(b.name), used_share(b), b.live_bytes);
}

}  // namespace

std::string device_that_ran_out(std::string_view error, const std::vector<DeviceMemory>& devices) {
  if (is_of_the_cpu(error)) return "cpu";
  const auto number = gpu_in(error);
  if (!number) return "";
  const std::string suffix = ":" + std::to_string(*number);
  const auto is_it = [&](const DeviceMemory& device) { return device.name.ends_with(suffix); };
  const auto found = std::ranges::find_if(devices, is_it);
  return found == devices.end() ? "" : found->name;
}

std::optional<DeviceMemory> device_to_blame(const MemorySample& sample) {
  const auto known = std::ranges::find(sample.devices, sample.ran_out_of, &DeviceMemory::name);
  if (known != sample.devices.end()) return *known;
  if (!sample.ran_out_of.empty()) {
    DeviceMemory unseen;
    unseen.name = sample.ran_out_of;
    return unseen;
  }
  const auto fullest = std::ranges::max_element(sample.devices, is_less_full);
  if (fullest == sample.devices.end()) return std::nullopt;
  return *fullest;
}

void Rules::ran_out(const MemorySample& sample, const DeviceMemory& memory,
                    const DeviceHistory* history) const {
  Suspicion& suspicion = suspect("out_of_memory", FindingSeverity::kCritical, memory.name, "");
  suspicion.magnitude = 1;
  MemoryAlert& alert = suspicion.alert;
  const bool is_known = sample.ran_out_of == memory.name || sample.devices.size() == 1;
  alert.title = (is_known ? "Memory of " + memory.name + " ran out"
                          : "Memory ran out, most likely that of " + memory.name + ",") +
                " in " + options.step + " " + std::to_string(iteration);
  if (sample.failed_batch_size) {
    alert.title += ", whose batch has " +
                   base::counted(static_cast<std::uint64_t>(*sample.failed_batch_size), "item");
  } else if (sample.batch_size) {
    alert.title += "; batches had up to " +
                   base::counted(static_cast<std::uint64_t>(*sample.batch_size), "item");
  }
  if (memory.peak_bytes) {
    alert.evidence.push_back("Tensors used at most " + sample::bytes_text(*memory.peak_bytes) +
                             " before the failure");
  }
  const auto failing = sample.failed_batch_size ? sample.failed_batch_size : sample.batch_size;
  const std::int64_t failed = failing.value_or(0);
  if (history != nullptr && history->fit) {
    advise_batch(alert, {below(history->fit->fit, failed), history->fit->iteration});
  } else if (const auto fit = batch_that_fits(sample, memory)) {
    advise_batch(alert, {below(*fit, failed), iteration});
    alert.evidence.push_back(
        "It failed before its peak, so an item needs more than that, and the batch that fits is no "
        "larger than stated");
  }
  alert.steps.push_back(
      {"Record with plimsoll run, or take a snapshot with torch.cuda.memory: plimsoll report shows "
       "which layers and lines use it."});
}

}  // namespace plimsoll::alerts
