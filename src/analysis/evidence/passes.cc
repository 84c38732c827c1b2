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
  struct Run {  // of a root, without other code in between
    Call first;
    std::vector<std::uint32_t> births;  // of what the first call makes, at each time it runs
  };
  std::map<std::string_view, std::vector<Run>> all;  // by root
  std::string_view running;
  const model::Lifetimes& lifetimes = device.lifetimes;
  Call last;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const model::Site& site = trace.birth(device, row);
    const bool is_forward = site.phase == model::Phase::kForward;
    const std::string_view root =
        is_forward ? root_of(trace.strings[site.layer]) : std::string_view();
    const Call call{site.layer, site.op};
    if (!root.empty() && root != running) all[root].push_back({call, {}});
    // An operator may make several allocations each time.
    const bool is_begin =
        !root.empty() && all[root].back().first == call && (call != last || root != running);
    if (is_begin) all[root].back().births.push_back(lifetimes.alloc[row]);
    running = root;
    last = call;
  }
  Begins begins;
  for (auto& [root, runs] : all) {
    std::map<Call, std::size_t> counts;
    for (const Run& run : runs) ++counts[run.first];
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
    std::erase_if(runs, [&](const Run& run) { return run.first != most->first; });
    const auto single =
        std::ranges::count_if(runs, [](const Run& run) { return run.births.size() == 1; });
    // If the first call runs once in half of them, a run with several is several passes.
    const bool is_once = static_cast<std::size_t>(single) * 2 >= runs.size();
    for (const Run& run : runs) {
      const auto end = is_once ? run.births.end() : run.births.begin() + 1;
      begins[root].insert(begins[root].end(), run.births.begin(), end);
    }
  }
  return begins;
}

}  // namespace plimsoll::analysis::evidence
