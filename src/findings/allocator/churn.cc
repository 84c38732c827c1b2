// churn, repeated_large_allocation: one line makes most of the allocations, or most of the
// allocated bytes in one large size, and frees each a few events later. That costs time, not
// memory. If the driver has to serve them, segment_churn reports that.
#include <cstdint>
#include <map>
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
constexpr double kShareOfTraffic = 0.5;
// Smaller requests share a segment, so a single size does not matter.
constexpr std::uint64_t kLeastRepeatedBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewestRepeated = 50;
// "Frees it immediately": nearly all are temporary.
constexpr double kTemporaryShare = 0.9;

// The allocations of one line and one size.
struct Population {
  std::uint64_t count = 0, temporary = 0, in_packages = 0;
};
using Populations = std::map<std::pair<std::uint32_t, std::uint64_t>, Population>;

}  // namespace

void churn(const Facts& facts, const DeviceFacts& device, Findings& out) {
  if (device.trace.device.type == model::DeviceType::kCpu) return;
  const std::uint64_t all = allocations_of(device.trace);
  for (const report::SiteRow& site : facts.report.tables.sites) {
    if (site.device != device.report.device || !is_named(site.line)) continue;
    if (site.temporary < kFewestTemporaries || is_mostly_in_packages(site)) continue;
    if (!is_at_least(site.temporary, kShareOfTraffic, all)) continue;
    out.push_back(
        {"churn",
         report::FindingSeverity::kInfo,
         site.line + " makes " + counted(site.temporary, "short-lived allocation") + ", " +
             percent_text(site.temporary, all) + " of all on " + device.name,
         {"Each was freed within " + std::to_string(report::SiteRow::kTemporaryEvents) +
          " events; together they requested " + bytes_text(site.temporary_bytes) +
          ", most often for " + bytes_text(site.commonest_size_bytes) + "."},
         {{"Allocate a buffer once outside the loop at " + site.line +
           " and write into it (out=, copy_, in-place operators). This saves time, not memory."}}});
  }
}

void repeated_large_allocation(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  Populations populations;
  std::uint64_t allocated = 0;  // requested bytes of all allocations
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row], died = lifetimes.free_completed[row];
    const std::uint64_t size = device.trace.events.size_bytes[born];
    allocated += size;
    if (size < kLeastRepeatedBytes) continue;
    const model::StackId stack = facts.trace.site(device.trace, born).stack;
    Population& population = populations[{facts.lines.line(stack).value, size}];
    ++population.count;
    if (died != model::kNone && died - born <= report::SiteRow::kTemporaryEvents) {
      ++population.temporary;
    }
    if (facts.lines.is_in_package(stack)) ++population.in_packages;
  }
  for (const auto& [place, population] : populations) {
    const auto& [count, temporary, in_packages] = population;
    const std::string line = facts.lines.label(model::LineId{place.first});
    const std::uint64_t size = place.second, bytes = count * size;
    if (count < kFewestRepeated || !is_at_least(temporary, kTemporaryShare, count)) continue;
    if (!is_named(line) || in_packages > count / 2) continue;
    if (!is_at_least(bytes, kShareOfTraffic, allocated)) continue;
    out.push_back(
        {"repeated_large_allocation",
         report::FindingSeverity::kInfo,
         line + " allocates " + bytes_text(size) + " " + counted(count, "time") +
             " and frees it immediately",
         {"That is " + bytes_text(bytes) + " of the " + bytes_text(allocated) + " allocated on " +
          device.name + " in the recording."},
         {{"Allocate the buffer once and write into it (out=, copy_, in-place operators)."},
          {"Use a fused operator that needs none."}}});
  }
}

}  // namespace plimsoll::findings
