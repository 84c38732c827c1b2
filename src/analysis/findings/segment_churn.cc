// segment_churn: the allocator repeatedly returns segments to the driver and requests them again.
#include <algorithm>
#include <string>
#include <utility>

#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"

namespace plimsoll::analysis::findings {
namespace {

// One wave between two phases of a program is normal, and so are a few per epoch.
constexpr std::uint64_t kFewestWaves = 5;
// About a millisecond for each: below this the delay is negligible.
constexpr std::uint64_t kFewestSegments = 50;

}  // namespace

Findings segment_churn(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const Traffic& traffic = device.traffic;
    const std::uint64_t pairs = std::min(traffic.segments_taken, traffic.segments_given);
    if (traffic.waves < kFewestWaves || pairs < kFewestSegments) continue;
    report::Finding finding;
    finding.id = "segment_churn";
    finding.severity = report::FindingSeverity::kWarning;
    finding.title = device.name + " returned memory to the driver and requested it again " +
                    counted(traffic.waves, "time") + ": " + bytes_text(traffic.given_bytes) +
                    " in " + counted(traffic.segments_given, "segment");
    finding.evidence.push_back("Most often it was " + traffic.line +
                               (traffic.by_empty_cache ? ", by torch.cuda.empty_cache()." : "."));
    finding.evidence.push_back(
        "Each cudaMalloc and cudaFree stops the device; cached memory would have been reused.");
    finding.next_step =
        traffic.by_empty_cache
            ? "Remove torch.cuda.empty_cache() there, or call it once between phases."
            : "The device is nearly full, and the allocator empties its cache before it tries "
              "again. Lower the peak, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.";
    if (!traffic.by_empty_cache && facts.conf.expandable_segments) {
      finding.next_step =
          "The device is nearly full, and the allocator empties its cache before it tries again. "
          "Lower the peak.";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
