#include "analysis/evidence/passes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::analysis::evidence {

Passes::Passes(const model::Trace& trace, const model::DeviceTrace& device)
    : trace_(trace),
      begins_(trace.has_layer_calls ? marked(trace, device) : inferred(trace, device)) {}

std::uint32_t Passes::of(model::StringId layer, std::uint32_t event) const {
  const auto found = begins_.find(root_of(trace_.strings[layer]));
  if (found == begins_.end()) return 0;
  const auto after = std::ranges::upper_bound(found->second, event);
  return static_cast<std::uint32_t>(after - found->second.begin());
}

Passes::Begins Passes::marked(const model::Trace& trace, const model::DeviceTrace& device) {
  Begins begins;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const std::string_view layer = trace.strings[trace.marks[row].name];
    const bool is_root = !layer.empty() && root_of(layer) == layer;
    if (trace.marks[row].kind != model::MarkKind::kLayerBegin || !is_root) continue;
    begins[layer].push_back(device.mark_events[row]);
  }
  return begins;
}

Passes::Begins Passes::inferred(const model::Trace& trace, const model::DeviceTrace& device) {
  using Call = std::pair<model::StringId, model::StringId>;  // layer, operator
  using Begin = std::pair<Call, std::uint32_t>;
  std::map<std::string_view, std::vector<Begin>> all;  // where a root begins to allocate
  std::string_view running;
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const model::Site& site = trace.birth(device, row);
    const bool is_forward = site.phase == model::Phase::kForward;
    const std::string_view root =
        is_forward ? root_of(trace.strings[site.layer]) : std::string_view();
    const bool is_begin = !root.empty() && root != running;
    if (is_begin) all[root].push_back({{site.layer, site.op}, lifetimes.alloc[row]});
    running = root;
  }
  Begins begins;
  for (const auto& [root, of_root] : all) {
    std::map<Call, std::size_t> counts;
    for (const auto& [call, born] : of_root) ++counts[call];
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
    for (const auto& [call, born] : of_root) {
      if (call == most->first) begins[root].push_back(born);
    }
  }
  return begins;
}

}  // namespace plimsoll::analysis::evidence
