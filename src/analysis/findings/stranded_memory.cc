// stranded_memory: the allocator requested more memory from the driver although much was free,
// because the free memory could not serve the request and could not be released. Cached bytes are
// not waste by themselves, so this is measured where it had a cost: at the peak of reserved bytes,
// with respect to the request that raised it.
#include <algorithm>
#include <string>
#include <utility>

#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"

namespace plimsoll::analysis::findings {
namespace {

// Any caching allocator strands some memory: in healthy steps without expandable segments, up to a
// seventh of the reserved bytes. The threshold is therefore a quarter, if that exceeds what a small
// change of the batch would need; or a tenth, if that much memory is worth a setting.
constexpr std::uint64_t kSmallBytes = std::uint64_t{256} << 20;
constexpr double kSmallShare = 0.25;
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 30;
constexpr double kLargeShare = 0.10;

// An out-of-memory finding about the same memory is more specific.
bool is_reported_already(const DeviceFacts& device) {
  return std::ranges::any_of(device.report.oom_details, [](const report::OomDetails& oom) {
    return oom.cause == "fragmentation";
  });
}

// From this size on, stranded memory is substantial.
std::uint64_t threshold_bytes(std::uint64_t reserved) {
  const auto from = [&](std::uint64_t least, double share) {
    return std::max(least, static_cast<std::uint64_t>(share * static_cast<double>(reserved)));
  };
  return std::min(from(kSmallBytes, kSmallShare), from(kLargeBytes, kLargeShare));
}

// If events and segments come from different points in time, they roll back to an invalid state,
// which shows as a negative baseline.
bool is_consistent(const report::DeviceReport& device) {
  return device.reserved.baseline_bytes >= 0 && device.held().baseline_bytes >= 0;
}

// Peak of reserved bytes minus peak of live bytes: how much less would have been enough without
// stranded memory.
std::uint64_t excess_bytes(const report::DeviceReport& device) {
  const std::int64_t reserved = device.reserved.peak_bytes;
  const std::int64_t live = device.held().peak_bytes;
  if (reserved <= live) return 0;
  return static_cast<std::uint64_t>(reserved) - static_cast<std::uint64_t>(live);
}

// What fragmentation cost at the peak of reserved bytes; 0: nothing, or unknown.
std::uint64_t cost_of(const DeviceFacts& device) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  if (!peak.event || is_reported_already(device) || !is_consistent(device.report)) return 0;
  return std::min(peak.stranded_bytes, excess_bytes(device.report));
}

std::uint64_t reserved_bytes(const DeviceFacts& device) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(device.report.reserved.peak_bytes, 0));
}

}  // namespace

std::optional<report::NearMiss> near_stranded(const DeviceFacts& device) {
  const std::uint64_t cost = cost_of(device);
  const std::uint64_t reserved = reserved_bytes(device);
  const std::uint64_t threshold = threshold_bytes(reserved);
  if (cost == 0 || cost >= threshold) return std::nullopt;
  return report::NearMiss{device.report.device, "stranded_memory",
                          bytes_text(cost) + " of " + bytes_text(reserved) +
                              " reserved were stranded (a finding from " + bytes_text(threshold) +
                              ")",
                          static_cast<double>(cost) / static_cast<double>(threshold)};
}

Findings stranded_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
    const std::uint64_t cost = cost_of(device);
    const std::uint64_t reserved = reserved_bytes(device);
    if (cost < threshold_bytes(reserved)) continue;
    report::Finding finding;
    finding.id = "stranded_memory";
    finding.severity = report::FindingSeverity::kWarning;
    finding.title = bytes_text(peak.stranded_bytes) + " of the " + bytes_text(reserved) +
                    " reserved on " + device.name +
                    " were stranded: free, but neither usable nor releasable";
    finding.evidence.push_back(
        peak.line + " requested " + bytes_text(peak.requested_bytes) + " (event " +
        base::format_count(*peak.event) + ") and got new memory from the driver. At most " +
        bytes_text(device.report.held().peak_bytes) + " were ever live simultaneously.");
    for (auto& sentence : pinning_sentences(peak.pinning_lines)) {
      finding.evidence.push_back(std::move(sentence));
    }
    const std::string pin = what_is_kept(peak.pinning_lines);
    finding.next_step = facts.conf.expandable_segments
                            ? "expandable_segments is on already. Allocate " + pin +
                                  " before the large temporaries."
                            : "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the "
                              "process starts, or allocate " +
                                  pin + " before the large temporaries.";
    finding.saving_bytes = cost;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
