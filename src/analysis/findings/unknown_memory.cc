// unknown_memory: a part of the peak that nobody can be charged with, and why.
#include <string>
#include <utility>

#include "analysis/findings/live.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kShareOfPeak = 0.01;
constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;

}  // namespace

Findings unknown_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::MomentRow* peak = own_peak(facts, device);
    if (peak == nullptr) continue;
    report::Finding finding;
    std::uint64_t bytes = 0;
    for (const report::GroupRow& row : facts.report.tables.unknown_by_reason) {
      if (row.device != device.report.device) continue;
      bytes += row.bytes;
      finding.evidence.push_back(bytes_text(row.bytes) + " in " + counted(row.count, "allocation") +
                                 ": " + row.key + ".");
    }
    if (bytes < kLeastBytes || !is_at_least(bytes, kShareOfPeak, peak->live_bytes)) continue;
    finding.id = "unknown_memory";
    finding.title =
        "It is not known what " + bytes_text(bytes) + " of the peak on " + device.name + " are (" +
        base::format_percent(static_cast<double>(bytes) / static_cast<double>(peak->live_bytes)) +
        ")";
    finding.next_step =
        "Begin to record before the model and its data are made: plimsoll run SCRIPT, PLIMSOLL=1, "
        "or plimsoll.record() around all of it.";
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
