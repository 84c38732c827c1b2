// memory_growth: lines that hold more at every step and never give it back.
#include <algorithm>
#include <string>
#include <utility>

#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "analysis/steady_growth.h"

namespace plimsoll::analysis::findings {
namespace {

// In ten thousand steps this is 640 MiB. A list of scalar losses (512 B a step) is far below.
constexpr double kLeastBytesPerStep = 64.0 * 1024;
// What grew is this much of what is live at the end: the run will not last.
constexpr double kCriticalShareOfLive = 0.25;
constexpr std::size_t kLinesNamed = 4;

// "By category: activation, 1.5 MiB a step." for the layer or category that grows most.
void add_kind(const char* kind, const std::vector<report::GrowthRow>& rows, std::int32_t device,
              report::Finding& finding) {
  const auto first = std::ranges::find_if(rows, [&](const report::GrowthRow& row) {
    return row.device == device && is_steady_growth(row);
  });
  if (first == rows.end()) return;
  finding.evidence.push_back("By " + std::string(kind) + " it is " + first->key + ", " +
                             rate_text(first->bytes_per_step) + ".");
}

report::Finding tell(const Facts& facts, const DeviceFacts& device,
                     const std::vector<report::GrowthRow>& rows) {
  double per_step = 0;
  std::uint64_t grown = 0;
  for (const report::GrowthRow& row : rows) {
    per_step += row.bytes_per_step;
    grown += grown_bytes(row);
  }
  const report::GrowthRow& first = rows.front();
  const auto live =
      static_cast<std::uint64_t>(std::max<std::int64_t>(device.report.held().end_bytes, 0));
  report::Finding finding;
  finding.id = "memory_growth";
  finding.severity = is_at_least(grown, kCriticalShareOfLive, live)
                         ? report::FindingSeverity::kCritical
                         : report::FindingSeverity::kWarning;
  finding.title = "Memory on " + device.name + " grows by " + rate_text(per_step) + ", by " +
                  bytes_text(grown) + " in this recording";
  for (const auto& row : std::span(rows).first(std::min(kLinesNamed, rows.size()))) {
    finding.evidence.push_back(row.line + ": " + rate_text(row.bytes_per_step) + ", from " +
                               bytes_text(row.first_bytes) + " to " + bytes_text(row.last_bytes) +
                               ".");
  }
  if (rows.size() > kLinesNamed) {
    finding.evidence.push_back(counted(rows.size() - kLinesNamed, "more line") + " grow as well.");
  }
  add_kind("category", facts.report.tables.growth_by_category, device.report.device, finding);
  add_kind("layer", facts.report.tables.growth_by_layer, device.report.device, finding);
  finding.evidence.push_back("Compared at " + counted(first.steps, "step") + " (" + first.boundary +
                             "), warm-up left out.");
  finding.next_step = "Let go of what " + first.line + kLetGo;
  finding.saving_bytes = grown;
  return finding;
}

}  // namespace

Findings memory_growth(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    std::vector<report::GrowthRow> rows;
    for (const report::GrowthRow& row : facts.report.tables.growth) {
      const bool is_this = row.device == device.report.device && is_steady_growth(row);
      if (is_this && row.bytes_per_step >= kLeastBytesPerStep) rows.push_back(row);
    }
    std::ranges::stable_sort(rows, std::ranges::greater{}, &report::GrowthRow::bytes_per_step);
    if (!rows.empty()) findings.push_back(tell(facts, device, rows));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
