// repeated_large_allocation: a line allocates the same large size again and again and drops it at
// once, where that costs something. Doing so from the cache is what training steps do, and free.
#include <algorithm>
#include <string>
#include <utility>

#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"

namespace plimsoll::analysis::findings {
namespace {

// Below this a segment is shared with others, and nothing hangs on one size.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewest = 50;
// "Drops it at once": nearly all are temporary.
constexpr double kTemporaryShare = 0.9;
// It costs where each tenth had to come from the driver, ...
constexpr double kDriverShare = 0.1;
// ... or where it is most of all bytes that the recording allocates: kernels that only fill and
// throw away.
constexpr double kShareOfBytes = 0.5;

bool is_repeated(const report::SiteRow& site) {
  return site.commonest_size_bytes >= kLeastBytes && site.commonest_size_count >= kFewest &&
         is_at_least(site.temporary, kTemporaryShare, site.allocations) && is_named(site.line) &&
         !is_mostly_in_packages(site);
}

}  // namespace

Findings repeated_large_allocation(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const Traffic& traffic = device.traffic;
    for (const report::SiteRow& site : facts.report.tables.sites) {
      if (site.device != device.report.device || !is_repeated(site)) continue;
      const auto found = traffic.taken_by_line.find(site.line);
      const std::uint64_t taken = std::min(found == traffic.taken_by_line.end() ? 0 : found->second,
                                           traffic.segments_given);
      const bool costs_driver = is_at_least(taken, kDriverShare, site.allocations);
      if (!costs_driver && !is_at_least(site.bytes, kShareOfBytes, traffic.allocated_bytes))
        continue;
      report::Finding finding;
      finding.id = "repeated_large_allocation";
      finding.severity = report::FindingSeverity::kInfo;
      finding.title = site.line + " allocates " + bytes_text(site.commonest_size_bytes) + " " +
                      counted(site.commonest_size_count, "time") + " and drops it at once";
      finding.evidence.push_back("That is " + bytes_text(site.bytes) + " of the " +
                                 bytes_text(traffic.allocated_bytes) + " allocated on " +
                                 device.name + " in the recording.");
      if (costs_driver) {
        finding.evidence.push_back(counted(taken, "allocation") +
                                   " had to wait for the driver (cudaMalloc).");
      }
      finding.next_step =
          "Allocate the buffer once and write into it (out=, copy_, in-place "
          "operators), or use a fused operator that needs none.";
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
