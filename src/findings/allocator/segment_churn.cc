// segment_churn: the allocator repeatedly returns segments to the driver and requests them again.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// One wave between two phases of a program is normal, and so are a few per epoch.
constexpr std::uint64_t kFewestWaves = 5;
// About a millisecond for each: below this the delay is negligible.
constexpr std::uint64_t kFewestSegments = 50;
// From this share on, a device counts as nearly full.
constexpr double kNearlyFull = 0.9;

// Whether the device is known to have had room.
bool has_room(const report::DeviceReport& device) {
  if (!device.ooms.empty() || device.bars.empty()) return false;
  const report::DeviceBarReport& bar = device.bars.front();  // when it was fullest
  return !is_at_least(bar.used_bytes, kNearlyFull, bar.total_bytes);
}

Steps steps_for(const Facts& facts, const DeviceFacts& device) {
  const AcceleratorNames& names = facts.names;
  if (device.traffic.by_empty_cache) {
    return {{"Remove " + names.module + ".empty_cache() there, or call it once between phases."}};
  }
  if (has_room(device.report)) {
    if (device.traffic.by_convolution) {
      return {{"If shapes keep changing, set torch.backends.cudnn.benchmark to False: it frees and "
               "requests segments while it tries algorithms for each new shape."},
              {"Pad the inputs to a few shapes."}};
    }
    return {{"Find what returns the memory there: " + names.module +
             ".empty_cache() in a library, garbage_collection_threshold in " + names.alloc_conf +
             ", or a limit of the process (" + names.module +
             ".set_per_process_memory_fraction) that is nearly reached."}};
  }
  Steps steps = {
      {"If the device is nearly full, lower the peak: the allocator empties its cache "
       "before it tries again."}};
  if (!facts.conf.expandable_segments) steps.push_back({names.set_expandable_segments() + "."});
  return steps;
}

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
    finding.evidence.push_back(
        "Most often it was " + traffic.line +
        (traffic.by_empty_cache ? ", by " + facts.names.module + ".empty_cache()." : ".") +
        " Each cudaMalloc and cudaFree stops the device; cached memory would have been reused.");
    if (has_room(device.report)) {
      const report::DeviceBarReport& bar = device.report.bars.front();
      finding.evidence.push_back("The device has room: at most " + bytes_text(bar.used_bytes) +
                                 " of " + bytes_text(bar.total_bytes) + " were used.");
      // Trying algorithms costs time at each new shape, but the user may have chosen that.
      if (traffic.by_convolution && !traffic.by_empty_cache) {
        finding.severity = report::FindingSeverity::kInfo;
        finding.evidence.emplace_back(
            "Most of it happens inside convolutions. If it ends after the first steps, nothing is "
            "wrong.");
      }
    }
    finding.steps = steps_for(facts, device);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::findings
