// unknown_memory: a part of the peak that cannot be attributed, and why.
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/live.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr double kUnknownShareOfPeak = 0.01;
// A snapshot has only sizes for memory from before its history.
constexpr double kShareOfSnapshot = 0.5;
constexpr std::uint64_t kLeastUnknownBytes = std::uint64_t{1} << 20;

report::Finding unknown(const std::string& title, std::string step) {
  report::Finding finding;
  finding.id = "unknown_memory";
  finding.title = title;
  finding.steps.push_back({std::move(step)});
  return finding;
}

void add_unknown_of_snapshot(const Peak& peak, Findings& findings) {
  std::uint64_t bytes = 0;
  for (const PeakAllocation& allocation : peak.live()) {
    const bool is_unknown = peak.category(allocation) == model::kUnknownCategory;
    if (allocation.born == model::kNone && is_unknown) bytes += allocation.size_bytes;
  }
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfSnapshot, peak.bytes())) return;
  findings.push_back(unknown(
      bytes_text(bytes) + " of the " + bytes_text(peak.bytes()) + " at the peak on " +
          peak.device().name + " were allocated before the recording: their category is unknown",
      "Call " + peak.facts().names.module +
          ".memory._record_memory_history(max_entries=100000) before the model is built, and "
          "record a whole training step: its gradients show which blocks are parameters."));
  findings.back().evidence.emplace_back("A snapshot has only sizes of them.");
}

}  // namespace

Findings unknown_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (!is_peak_judged(facts, device)) continue;
    if (facts.trace.has_inferred_roles) {
      if (const auto peak = Peak::of(facts, device)) add_unknown_of_snapshot(*peak, findings);
      continue;
    }
    const report::PointInTime* peak = own_peak(facts, device);
    if (peak == nullptr) continue;
    std::vector<std::string> reasons;
    std::uint64_t bytes = 0;
    for (const report::GroupRow& row : facts.report.tables.unknown_by_reason) {
      if (row.device != device.report.device) continue;
      bytes += row.bytes;
      reasons.push_back(bytes_text(row.bytes) + " in " + counted(row.count, "allocation") + ": " +
                        row.key + ".");
    }
    if (bytes < kLeastUnknownBytes || !is_at_least(bytes, kUnknownShareOfPeak, peak->live_bytes))
      continue;
    const double share = static_cast<double>(bytes) / static_cast<double>(peak->live_bytes);
    findings.push_back(
        unknown(bytes_text(bytes) + " of the peak on " + device.name +
                    " have an unknown category (" + base::format_percent(share) + ")",
                "Start recording before the model and its data are created: plimsoll run SCRIPT, "
                "PLIMSOLL=1, or plimsoll.record() around all of it."));
    findings.back().evidence = std::move(reasons);
  }
  return findings;
}

}  // namespace plimsoll::findings
