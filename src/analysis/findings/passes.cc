#include "analysis/findings/passes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/findings/backward_use.h"

namespace plimsoll::analysis::findings {
namespace {

using Begins = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;

Begins marked_begins(const Peak& peak) {
  const model::Trace& trace = peak.trace();
  const model::DeviceTrace& device = peak.device().trace;
  Begins begins;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const std::string_view layer = trace.strings[trace.marks[row].name];
    const bool is_root = !layer.empty() && root_of(layer) == layer;
    if (trace.marks[row].kind != model::MarkKind::kLayerBegin || !is_root) continue;
    begins[layer].push_back(device.mark_events[row]);
  }
  return begins;
}

Begins inferred_begins(const Peak& peak) {
  // Where a root begins to allocate, with the layer and operator.
  using Begin = std::pair<std::uint64_t, std::uint32_t>;
  std::map<std::string_view, std::vector<Begin>> all;
  std::string_view running;
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_forward = peak.phase(allocation) == model::Phase::kForward;
    const std::string_view root = is_forward
                                      ? root_of(peak.trace().strings[peak.site(allocation).layer])
                                      : std::string_view();
    const bool is_begin = !root.empty() && root != running;
    if (is_begin) all[root].emplace_back(layer_operator(peak, allocation), allocation.born);
    running = root;
  });
  Begins begins;
  for (const auto& [root, of_root] : all) {
    std::map<std::uint64_t, std::size_t> counts;
    for (const auto& [call, born] : of_root) ++counts[call];
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
    for (const auto& [call, born] : of_root) {
      if (call == most->first) begins[root].push_back(born);
    }
  }
  return begins;
}

}  // namespace

Passes::Passes(const Peak& peak)
    : peak_(peak),
      begins_(peak.trace().has_layer_calls ? marked_begins(peak) : inferred_begins(peak)) {}

std::size_t Passes::of(const PeakAllocation& allocation) const {
  const auto found = begins_.find(root_of(peak_.trace().strings[peak_.site(allocation).layer]));
  if (found == begins_.end()) return 0;
  const auto after = std::ranges::upper_bound(found->second, allocation.born);
  return static_cast<std::size_t>(after - found->second.begin());
}

}  // namespace plimsoll::analysis::findings
