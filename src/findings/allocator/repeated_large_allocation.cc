// repeated_large_allocation: a line repeatedly allocates the same large size and frees it
// immediately, in a way that is expensive. An allocation from the cache costs nothing and is normal
// in training steps.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Smaller requests share a segment, so a single size does not matter.
constexpr std::uint64_t kLeastRepeatedBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewest = 50;
// "Frees it immediately": nearly all are temporary.
constexpr double kTemporaryShare = 0.9;
// Expensive if a tenth of them had to come from the driver, ...
constexpr double kDriverShare = 0.1;
// ... or most of the allocated bytes: kernels that only fill memory to discard it.
constexpr double kShareOfBytes = 0.5;

// The allocations of one line and one size.
struct Population {
  model::LineId line;
  std::uint64_t size_bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t temporary = 0;
  std::uint64_t from_driver = 0;  // immediately after a new segment
  std::uint64_t in_packages = 0;

  std::uint64_t bytes() const { return count * size_bytes; }
};

bool takes_segment(model::Action action) {
  return action == model::Action::kSegmentAlloc || action == model::Action::kSegmentMap;
}

// Only large sizes, most bytes first.
std::vector<Population> populations_of(const Facts& facts, const DeviceFacts& device) {
  const model::Events& events = device.trace.events;
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Population> by_size;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    const std::uint64_t size = events.size_bytes[born];
    if (size < kLeastRepeatedBytes) continue;
    const model::StackId stack = facts.trace.site(device.trace, born).stack;
    const model::LineId line = facts.lines.line(stack);
    Population& population = by_size[{line.value, size}];
    const std::uint32_t died = lifetimes.free_completed[row];
    const bool is_temporary =
        died != model::kNone && died - born <= report::SiteRow::kTemporaryEvents;
    population.line = line;
    population.size_bytes = size;
    ++population.count;
    population.temporary += is_temporary ? 1 : 0;
    population.from_driver += born > 0 && takes_segment(events.action[born - 1]) ? 1 : 0;
    population.in_packages += facts.lines.is_in_package(stack) ? 1 : 0;
  }
  std::vector<Population> populations;
  for (auto& [key, population] : by_size) {
    population.from_driver = std::min(population.from_driver, device.traffic.segments_given);
    populations.push_back(population);
  }
  std::ranges::stable_sort(populations, std::ranges::greater{}, &Population::bytes);
  return populations;
}

bool is_repeated(const Population& population) {
  return population.count >= kFewest &&
         is_at_least(population.temporary, kTemporaryShare, population.count) &&
         population.in_packages <= population.count / 2;
}

}  // namespace

Findings repeated_large_allocation(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const std::uint64_t allocated = device.traffic.allocated_bytes;
    for (const Population& population : populations_of(facts, device)) {
      const std::string line = facts.lines.label(population.line);
      if (!is_repeated(population) || !is_named(line)) continue;
      const bool costs_driver = is_at_least(population.from_driver, kDriverShare, population.count);
      if (!costs_driver && !is_at_least(population.bytes(), kShareOfBytes, allocated)) continue;
      report::Finding finding;
      finding.id = "repeated_large_allocation";
      finding.severity = report::FindingSeverity::kInfo;
      finding.title = line + " allocates " + bytes_text(population.size_bytes) + " " +
                      counted(population.count, "time") + " and frees it immediately";
      finding.evidence.push_back("That is " + bytes_text(population.bytes()) + " of the " +
                                 bytes_text(allocated) + " allocated on " + device.name +
                                 " in the recording.");
      if (costs_driver) {
        finding.evidence.push_back(counted(population.from_driver, "allocation") +
                                   " had to wait for the driver (cudaMalloc).");
      }
      finding.steps = {
          {"Allocate the buffer once and write into it (out=, copy_, in-place operators)."},
          {"Use a fused operator that needs none."}};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace plimsoll::findings
