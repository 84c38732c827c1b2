// unknown_memory: a part of the peak that cannot be attributed, and why.
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
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

void of_snapshot(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const auto peak = Peak::of(facts, device);
  if (!peak) return;
  std::uint64_t bytes = 0;
  for (const Allocation& each : peak->live()) {
    if (each.born == model::kNone && each.is(model::kUnknownCategory)) {
      bytes += each.size_bytes;
    }
  }
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfSnapshot, peak->bytes())) return;
  out.push_back(
      {"unknown_memory",
       report::FindingSeverity::kInfo,
       bytes_text(bytes) + " of the " + bytes_text(peak->bytes()) + " at the peak on " +
           device.name + " were allocated before the recording: their category is unknown",
       {"A snapshot has only sizes of them."},
       {{"Call " + facts.names.module +
         ".memory._record_memory_history(max_entries=100000) before the model is built, and "
         "record a whole training step: its gradients show which blocks are parameters."}}});
}

}  // namespace

void unknown_memory(const Facts& facts, const DeviceFacts& device, Findings& out) {
  if (!is_peak_judged(facts, device)) return;
  if (facts.trace.has_inferred_roles) return of_snapshot(facts, device, out);
  const report::PointInTime* peak = peak_point(facts, device);
  if (peak == nullptr || !facts.trace.has_phases()) return;
  std::vector<std::string> reasons;
  std::uint64_t bytes = 0;
  for (const report::GroupRow& row : facts.report.tables.unknown_by_reason) {
    if (row.device != device.report.device) continue;
    bytes += row.bytes;
    reasons.push_back(bytes_text(row.bytes) + " in " + counted(row.count, "allocation") + ": " +
                      row.key + ".");
  }
  if (bytes < kLeastUnknownBytes) return;
  if (!is_at_least(bytes, kUnknownShareOfPeak, peak->live_bytes)) return;
  out.push_back({"unknown_memory",
                 report::FindingSeverity::kInfo,
                 bytes_text(bytes) + " of the peak on " + device.name +
                     " have an unknown category (" + percent_text(bytes, peak->live_bytes) + ")",
                 std::move(reasons),
                 {{"Start recording before the model and its data are created: plimsoll run "
                   "SCRIPT, PLIMSOLL=1, or plimsoll.record() around all of it."}}});
}

}  // namespace plimsoll::findings
