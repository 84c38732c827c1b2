// stranded_memory: the allocator requested more memory from the driver although much was free,
// because the free memory could not serve the request and could not be released. Cached bytes are
// not waste by themselves, so this is measured where it had a cost: at the peak of reserved bytes,
// for the request that raised it. If nothing pins the free memory, cached_memory.cc reports it.
#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "findings/allocator/cached_memory.h"
#include "findings/allocator/pinning.h"
#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// A quarter of the reserved bytes, if that exceeds what a small change of the batch would need.
// Healthy training wastes up to a sixth, because of rounding, and because some blocks of one phase
// do not suit another.
constexpr std::uint64_t kMuchBytes = std::uint64_t{256} << 20;
constexpr double kMuchShare = 0.25;
// A smaller share of stranded bytes counts if that much memory is worth a setting.
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 30;
constexpr double kLargeShare = 0.10;

// The bytes that fragmentation cost at the peak of reserved bytes, and those from which on that is
// substantial.
struct Cost {
  std::uint64_t bytes = 0;  // 0: none, or unknown
  std::uint64_t reserved = 0;
  std::uint64_t threshold = 0;
  std::uint64_t least_cached = 0;  // the same of bytes that nothing pins
};

Cost cost_of(const DeviceFacts& device) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  Cost cost{.reserved = not_negative(device.report.reserved.peak_bytes)};
  if (peak.event && is_reserved_judged(device)) {
    cost.bytes = std::min(peak.stranded_bytes, excess_bytes(device.report));
  }
  const auto from = [&](std::uint64_t least, double share) {
    return std::max(least, static_cast<std::uint64_t>(share * static_cast<double>(cost.reserved)));
  };
  cost.least_cached = from(kMuchBytes, kMuchShare);
  cost.threshold = std::min(cost.least_cached, from(kLargeBytes, kLargeShare));
  return cost;
}

}  // namespace

std::optional<report::NearMiss> near_stranded(const DeviceFacts& device) {
  const Cost cost = cost_of(device);
  if (cost.bytes == 0 || cost.bytes >= cost.threshold) return std::nullopt;
  return report::NearMiss{device.report.device, "stranded_memory",
                          bytes_text(cost.bytes) + " of " + bytes_text(cost.reserved) +
                              " reserved were stranded (a finding at " +
                              bytes_text(cost.threshold) + ")",
                          static_cast<double>(cost.bytes) / static_cast<double>(cost.threshold)};
}

Findings stranded_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
    const Cost cost = cost_of(device);
    if (cost.bytes < cost.threshold) {
      auto cached = cached_memory(facts, device, cost.least_cached);
      if (cached) findings.push_back(std::move(*cached));
      continue;
    }
    report::Finding finding;
    finding.id = "stranded_memory";
    finding.severity = report::FindingSeverity::kWarning;
    finding.title = bytes_text(peak.stranded_bytes) + " of the " + bytes_text(cost.reserved) +
                    " reserved on " + device.name +
                    " were stranded: free, but neither usable nor releasable";
    finding.evidence.push_back(
        peak.line + " requested " + bytes_text(peak.requested_bytes) + " (event " +
        base::format_count(*peak.event) + ") and got new memory from the driver. At most " +
        bytes_text(device.report.live_totals().peak_bytes) + " were ever live simultaneously.");
    add_pins(facts, peak.pinning_lines, cost.bytes, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::findings
