#include "alerts/fragmentation_note.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/finding.h"
#include "sample/quantities.h"

namespace plimsoll::alerts {
namespace {

constexpr const char* kWhyNotEmptyCache =
    "torch.cuda.empty_cache() does not fix it: it returns only segments without a live block, and "
    "the next iteration allocates them again";

std::string advice(bool is_high) {
  if (is_high) {
    return "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and allocate tensors that grow "
           "(densified parameters and their optimizer state) less often and in larger steps; "
           "plimsoll report of a snapshot names the lines that pin segments.";
  }
  return "Watch it. If it rises, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and keep "
         "tensor sizes equal from iteration to iteration.";
}

// The reserved memory that no peak has used, in percent; without a peak, the part that is not
// allocated.
double judged_percent(const DeviceMemory& device, std::optional<std::uint64_t> peak) {
  const std::uint64_t reserved = *device.reserved_bytes;
  const std::uint64_t used = peak.value_or(*device.allocated_bytes);
  return sample::share_percent(static_cast<double>(reserved - std::min(used, reserved)),
                               static_cast<double>(reserved));
}

MemoryAlert note_of(const DeviceMemory& device, std::int64_t iteration,
                    std::optional<std::uint64_t> peak, bool is_high) {
  const std::uint64_t reserved = *device.reserved_bytes;
  MemoryAlert alert;
  alert.id = "fragmentation";
  alert.severity = is_high ? FindingSeverity::kWarning : FindingSeverity::kInfo;
  alert.device = device.name;
  alert.iteration = iteration;
  alert.title = "Fragmentation of " + device.name + " is " + (is_high ? "high: " : "moderate: ") +
                sample::percent_text(judged_percent(device, peak)) + " of reserved memory is " +
                (peak ? "used by no peak" : "not allocated at the end");
  alert.evidence = {sample::bytes_text(reserved) + " reserved, " +
                        sample::bytes_text(*device.allocated_bytes) + " allocated",
                    peak
                        ? "The highest peak was " + sample::bytes_text(*peak) + ": " +
                              sample::bytes_text(reserved - *peak) + " were never needed"
                        : "The log has no peak, so how much of that an iteration needs is unknown"};
  alert.steps = {step_up_to(advice(is_high), peak ? reserved - *peak : 0)};
  return alert;
}

}  // namespace

void add_fragmentation_note(const DeviceMemory& device, std::int64_t iteration,
                            std::optional<std::uint64_t> highest_peak_bytes,
                            const DetectionOptions& options, std::vector<MemoryAlert>& findings) {
  const auto ratio = fragmentation_ratio(device);
  if (!ratio || *device.reserved_bytes < options.least_reserved_bytes) return;
  const double percent = judged_percent(device, highest_peak_bytes);
  const bool is_high = highest_peak_bytes && percent > kHighPercent;
  const auto known = std::ranges::find_if(findings, [&](const MemoryAlert& alert) {
    return alert.id == "fragmentation" && alert.device == device.name;
  });
  MemoryAlert alert;
  if (known != findings.end()) {
    alert = std::move(*known);
    findings.erase(known);
    if (is_high) alert.severity = std::max(alert.severity, FindingSeverity::kWarning);
  } else if (percent > kModeratePercent) {
    alert = note_of(device, iteration, highest_peak_bytes, is_high);
    alert.evidence.front() += ", at " + options.step + " " + std::to_string(iteration);
  } else {
    return;
  }
  alert.evidence.emplace_back(kWhyNotEmptyCache);
  const auto after = std::ranges::find_if(
      findings, [&](const MemoryAlert& other) { return other.severity < alert.severity; });
  findings.insert(after, std::move(alert));
}

}  // namespace plimsoll::alerts
