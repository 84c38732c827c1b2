// churn: one line makes most of the allocations, and each is freed a few events later.
#include <string>
#include <utility>

#include "base/units.h"
#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Below this, a microsecond or two per allocation is negligible.
constexpr std::uint64_t kFewestTemporaries = 2'000;
// In healthy training steps the busiest line makes at most a third of all allocations.
constexpr double kShareOfAllocations = 0.5;

}  // namespace

Findings churn(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (device.trace.device.type == model::DeviceType::kCpu) continue;
    const std::uint64_t allocations = device.traffic.allocations;
    for (const report::SiteRow& site : facts.report.tables.sites) {
      if (site.device != device.report.device || !is_named(site.line)) continue;
      if (site.temporary < kFewestTemporaries || is_mostly_in_packages(site)) continue;
      if (!is_at_least(site.temporary, kShareOfAllocations, allocations)) continue;
      report::Finding finding;
      finding.id = "churn";
      finding.severity = report::FindingSeverity::kInfo;
      finding.title = site.line + " makes " + counted(site.temporary, "short-lived allocation") +
                      ", " +
                      base::format_percent(static_cast<double>(site.temporary) /
                                           static_cast<double>(allocations)) +
                      " of all on " + device.name;
      finding.evidence.push_back(
          "Each was freed within " + std::to_string(report::SiteRow::kTemporaryEvents) +
          " events; together they requested " + bytes_text(site.temporary_bytes) +
          ", most often for " + bytes_text(site.commonest_size_bytes) + ".");
      finding.steps = {{"Allocate a buffer once outside the loop at " + site.line +
                        " and write into it (out=, copy_, in-place operators). This saves time, "
                        "not memory."}};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace plimsoll::findings
