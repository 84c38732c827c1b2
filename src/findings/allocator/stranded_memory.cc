// stranded_memory: the allocator requested more memory from the driver although much was free,
// because the free memory could not serve the request and could not be released. Cached bytes are
// not waste by themselves, so this is measured where it had a cost: at the peak of reserved bytes,
// for the request that raised it. If nothing pins the free memory, cached_memory.cc reports it.
#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "findings/allocator/cached_memory.h"
#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Any caching allocator strands some memory: in healthy steps without expandable segments, up to a
// seventh of the reserved bytes. The threshold is therefore a quarter, if that exceeds what a small
// change of the batch would need; or a tenth, if that much memory is worth a setting.
constexpr std::uint64_t kSmallBytes = std::uint64_t{256} << 20;
constexpr double kSmallShare = 0.25;
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 30;
constexpr double kLargeShare = 0.10;

// The bytes from which on stranded memory is substantial.
std::uint64_t threshold_bytes(std::uint64_t reserved) {
  const auto from = [&](std::uint64_t least, double share) {
    return std::max(least, static_cast<std::uint64_t>(share * static_cast<double>(reserved)));
  };
  return std::min(from(kSmallBytes, kSmallShare), from(kLargeBytes, kLargeShare));
}

// The bytes that fragmentation cost at the peak of reserved bytes; 0: none, or unknown.
std::uint64_t cost_of(const DeviceFacts& device) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  if (!peak.event || !is_reserved_judged(device)) return 0;
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
                              " reserved were stranded (a finding at " + bytes_text(threshold) +
                              ")",
                          static_cast<double>(cost) / static_cast<double>(threshold)};
}

Findings stranded_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
    const std::uint64_t cost = cost_of(device);
    const std::uint64_t reserved = reserved_bytes(device);
    if (cost < threshold_bytes(reserved)) {
      if (auto cached = cached_memory(facts, device)) findings.push_back(std::move(*cached));
      continue;
    }
    report::Finding finding;
    finding.id = "stranded_memory";
    finding.severity = report::FindingSeverity::kWarning;
    finding.title = bytes_text(peak.stranded_bytes) + " of the " + bytes_text(reserved) +
                    " reserved on " + device.name +
                    " were stranded: free, but neither usable nor releasable";
    finding.evidence.push_back(
        peak.line + " requested " + bytes_text(peak.requested_bytes) + " (event " +
        base::format_count(*peak.event) + ") and got new memory from the driver. At most " +
        bytes_text(device.report.live_totals().peak_bytes) + " were ever live simultaneously.");
    for (auto& sentence : pinning_sentences(peak.pinning_lines)) {
      finding.evidence.push_back(std::move(sentence));
    }
    if (facts.conf.expandable_segments) {
      finding.evidence.emplace_back("expandable_segments is on already.");
    } else {
      finding.steps.push_back(
          step_up_to(facts.names.set_expandable_segments() + " before the process starts.", cost));
    }
    finding.steps.push_back(step_up_to(
        "Allocate " + what_is_kept(peak.pinning_lines) + " before the large temporaries.", cost));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::findings
