// segment_churn: the allocator repeatedly returns segments to the driver and requests them again.
// Each cudaMalloc and cudaFree stalls the device; a healthy run calls them only in its first steps.
#include <algorithm>
#include <cstdint>
#include <map>
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

// The segments that a device returned to the driver and requested again. A wave is a run of segment
// frees, followed by segment allocations.
struct Traffic {
  std::uint64_t segments_taken = 0;  // segment_alloc and segment_map
  std::uint64_t segments_given = 0;  // segment_free and segment_unmap
  std::uint64_t given_bytes = 0;
  std::uint64_t waves = 0;
  bool by_empty_cache = false;  // most waves came from torch.cuda.empty_cache()
  bool by_convolution = false;  // most waves were inside convolutions: cudnn.benchmark
  std::string line;             // the line that freed in most waves; may be a label in brackets
};

// Whether a convolution, of forward or backward, runs at this site.
bool is_in_convolution(const evidence::TraceFacts& of_trace, const model::Site& site) {
  return of_trace.operators.called_at(site).has(evidence::Operator::kConvolution) ||
         of_trace.stacks.has(site.stack, evidence::StackFlag::kConvolution);
}

Traffic traffic_of(const Facts& facts, const model::DeviceTrace& device) {
  using enum model::Action;
  const evidence::StackFacts& stacks = facts.of_trace.stacks;
  const model::Events& events = device.events;
  Traffic traffic;
  const model::Site* wave = nullptr;  // where the open wave began
  std::uint64_t by_empty_cache = 0, by_convolution = 0;
  std::map<std::string, std::uint64_t> lines;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const model::Action action = events.action[row];
    if (action == kSegmentFree || action == kSegmentUnmap) {
      if (wave == nullptr) wave = &facts.trace.site(device, row);
      ++traffic.segments_given;
      traffic.given_bytes += events.size_bytes[row];
    } else if (action == kSegmentAlloc || action == kSegmentMap) {
      ++traffic.segments_taken;
      if (wave == nullptr) continue;
      // The wave ends, and counts.
      ++traffic.waves;
      if (is_in_convolution(facts.of_trace, *wave)) ++by_convolution;
      if (stacks.has(wave->stack, evidence::StackFlag::kEmptyCache)) ++by_empty_cache;
      ++lines[facts.lines.label(wave->stack)];
      wave = nullptr;
    }
  }
  traffic.line = largest(lines).first;
  traffic.by_empty_cache = by_empty_cache * 2 > traffic.waves;
  traffic.by_convolution = by_convolution * 2 > traffic.waves;
  return traffic;
}

// Whether the device is known to have had room.
bool has_room(const report::DeviceReport& device) {
  if (!device.ooms.empty() || device.bars.empty()) return false;
  const report::DeviceBarReport& bar = device.bars.front();  // when it was fullest
  return !is_at_least(bar.used_bytes, kNearlyFull, bar.total_bytes);
}

Steps steps_for(const Facts& facts, const DeviceFacts& device, const Traffic& traffic) {
  const AcceleratorNames& names = facts.names;
  if (traffic.by_empty_cache) {
    return {{"Remove " + names.module + ".empty_cache() there, or call it once between phases."}};
  }
  if (has_room(device.report)) {
    if (traffic.by_convolution) {
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

void segment_churn(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const Traffic traffic = traffic_of(facts, device.trace);
  const std::uint64_t pairs = std::min(traffic.segments_taken, traffic.segments_given);
  if (traffic.waves < kFewestWaves || pairs < kFewestSegments) return;
  report::Finding finding = {
      "segment_churn",
      report::FindingSeverity::kWarning,
      device.name + " returned memory to the driver and requested it again " +
          counted(traffic.waves, "time") + ": " + bytes_text(traffic.given_bytes) + " in " +
          counted(traffic.segments_given, "segment"),
      {"Most often it was " + traffic.line +
       (traffic.by_empty_cache ? ", by " + facts.names.module + ".empty_cache()." : ".") +
       " Each cudaMalloc and cudaFree stops the device; cached memory would have been reused."},
      steps_for(facts, device, traffic)};
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
  out.push_back(std::move(finding));
}

}  // namespace plimsoll::findings
