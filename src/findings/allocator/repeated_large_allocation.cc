// repeated_large_allocation: one line repeatedly allocates the same large size and frees it
// immediately, and these are most of all allocated bytes: kernels that only fill memory to discard
// it. If the driver has to serve them, segment_churn reports that.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Smaller requests share a segment, so a single size does not matter.
constexpr std::uint64_t kLeastRepeatedBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewest = 50;
// "Frees it immediately": nearly all are temporary.
constexpr double kTemporaryShare = 0.9;
constexpr double kShareOfBytes = 0.5;

// The allocations of one line and one size.
struct Population {
  std::uint64_t count = 0;
  std::uint64_t temporary = 0;
  std::uint64_t in_packages = 0;
};
using Populations = std::map<std::pair<std::uint32_t, std::uint64_t>, Population>;

Populations large_populations(const Facts& facts, const model::DeviceTrace& device) {
  const model::Lifetimes& lifetimes = device.lifetimes;
  Populations populations;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row], died = lifetimes.free_completed[row];
    const std::uint64_t size = device.events.size_bytes[born];
    if (size < kLeastRepeatedBytes) continue;
    const model::StackId stack = facts.trace.site(device, born).stack;
    const bool is_temporary =
        died != model::kNone && died - born <= report::SiteRow::kTemporaryEvents;
    Population& population = populations[{facts.lines.line(stack).value, size}];
    ++population.count;
    population.temporary += is_temporary ? 1 : 0;
    population.in_packages += facts.lines.is_in_package(stack) ? 1 : 0;
  }
  return populations;
}

}  // namespace

Findings repeated_large_allocation(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const std::uint64_t allocated = device.traffic.allocated_bytes;
    for (const auto& [place, population] : large_populations(facts, device.trace)) {
      const auto& [count, temporary, in_packages] = population;
      const std::string line = facts.lines.label(model::LineId{place.first});
      const std::uint64_t size = place.second, bytes = count * size;
      if (count < kFewest || !is_at_least(temporary, kTemporaryShare, count)) continue;
      if (!is_named(line) || in_packages > count / 2) continue;
      if (!is_at_least(bytes, kShareOfBytes, allocated)) continue;
      report::Finding finding;
      finding.id = "repeated_large_allocation";
      finding.title = line + " allocates " + bytes_text(size) + " " + counted(count, "time") +
                      " and frees it immediately";
      finding.evidence.push_back("That is " + bytes_text(bytes) + " of the " +
                                 bytes_text(allocated) + " allocated on " + device.name +
                                 " in the recording.");
      finding.steps = {
          {"Allocate the buffer once and write into it (out=, copy_, in-place operators)."},
          {"Use a fused operator that needs none."}};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace plimsoll::findings
