#include "findings/traffic.h"

#include <unordered_map>

namespace plimsoll::findings {
namespace {

using model::Action;

// Whether a convolution, of forward or backward, runs at this site.
bool is_in_convolution(const evidence::TraceFacts& of_trace, const model::Site& site) {
  return of_trace.operators.called_at(site).has(evidence::Operator::kConvolution) ||
         of_trace.stacks.has(site.stack, evidence::StackFlag::kConvolution);
}

}  // namespace

Traffic traffic_of(const model::Trace& trace, const model::UserLines& lines,
                   const evidence::TraceFacts& of_trace, const model::DeviceTrace& device) {
  const model::Events& events = device.events;
  Traffic traffic;
  const model::Site* wave = nullptr;  // where the open wave began
  std::uint64_t by_empty_cache = 0, by_convolution = 0, most = 0;
  std::unordered_map<std::string, std::uint64_t> by_line;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const Action action = events.action[row];
    if (action == Action::kAlloc) {
      ++traffic.allocations;
      traffic.allocated_bytes += events.size_bytes[row];
    } else if (action == Action::kSegmentFree || action == Action::kSegmentUnmap) {
      if (wave == nullptr) wave = &trace.site(device, row);
      ++traffic.segments_given;
      traffic.given_bytes += events.size_bytes[row];
    } else if (action == Action::kSegmentAlloc || action == Action::kSegmentMap) {
      ++traffic.segments_taken;
      if (wave == nullptr) continue;
      // The wave ends, and counts.
      ++traffic.waves;
      by_convolution += is_in_convolution(of_trace, *wave) ? 1 : 0;
      by_empty_cache += of_trace.stacks.has(wave->stack, evidence::StackFlag::kEmptyCache) ? 1 : 0;
      const std::string line = lines.label(wave->stack);
      const std::uint64_t count = ++by_line[line];
      if (count > most) most = count, traffic.line = line;
      wave = nullptr;
    }
  }
  traffic.by_empty_cache = by_empty_cache * 2 > traffic.waves;
  traffic.by_convolution = by_convolution * 2 > traffic.waves;
  return traffic;
}

}  // namespace plimsoll::findings
