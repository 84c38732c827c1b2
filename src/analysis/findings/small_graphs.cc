#include "analysis/findings/small_graphs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kSmallGraphsShareOfPeak = 0.25;
// While a forward runs, the input and the result of its current operator are live without a graph.
constexpr std::size_t kOfRunningForward = 2;

using Calls = std::unordered_map<std::uint64_t, std::size_t>;  // activations, by layer and operator

struct ModuleForward {
  std::vector<PeakAllocation> activations;  // by birth; empty if it has none at the peak
  std::uint32_t next_graph = model::kNone;  // birth of the first tensor outside that is of a graph
  bool is_used = false;                     // a backward frees one of its activations
};

// The forwards of a root module over the whole recording.
struct RootModule {
  std::vector<ModuleForward> forwards;
  std::optional<std::uint64_t> first_call;
  Calls kept;                     // by forwards in training, for their backwards
  std::size_t used_forwards = 0;  // forwards in training
  std::size_t first_pending = 0;  // the forwards from here on wait for an operator outside
  bool is_open = false;           // the last forward still runs
};
using RootModules = std::map<std::string_view, RootModule>;

// The roots with enough activations that are live at the peak and that no backward frees.
RootModules roots_at_peak(const Peak& peak, const BackwardUse& use) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const PeakAllocation& allocation : peak.live()) {
    if (!may_be_of_graph(peak, allocation) || use.is_freed_by_backward(allocation)) continue;
    const std::string_view root = root_of(peak.trace().strings[peak.site(allocation).layer]);
    if (!root.empty()) bytes[root] += allocation.size_bytes;
  }
  RootModules roots;
  for (const auto& [root, of_root] : bytes) {
    if (is_at_least(of_root, kSmallGraphsShareOfPeak, peak.bytes())) roots[root];
  }
  return roots;
}

bool is_live_at_peak(const Peak& peak, const PeakAllocation& allocation) {
  return allocation.born <= peak.event() && allocation.died > peak.event();
}

// Reduces a forward that has ended to what the rule needs, because a recording may have millions of
// forwards.
void close_forward(const Peak& peak, const BackwardUse& use, RootModule& root) {
  root.is_open = false;
  if (root.forwards.empty()) return;
  ModuleForward& forward = root.forwards.back();
  if (forward.is_used) {
    if (!forward.activations.empty()) ++root.used_forwards;
    for (const PeakAllocation& each : forward.activations) {
      if (use.is_freed_by_backward(each)) ++root.kept[layer_operator(peak, each)];
    }
  }
  const bool is_at_peak = std::ranges::any_of(
      forward.activations, [&](const PeakAllocation& each) { return is_live_at_peak(peak, each); });
  if (forward.is_used || !is_at_peak) forward.activations = {};
}

void add_activation(const Peak& peak, const BackwardUse& use, const PeakAllocation& allocation,
                    RootModule& root) {
  const std::uint64_t call = layer_operator(peak, allocation);
  if (!root.first_call) root.first_call = call;
  if (!root.is_open || call == root.first_call) {
    close_forward(peak, use, root);
    root.forwards.emplace_back();
    root.is_open = true;
  }
  ModuleForward& forward = root.forwards.back();
  forward.activations.push_back(allocation);
  forward.is_used |= use.is_freed_by_backward(allocation);
}

// Assigns the graph of an operator outside all modules to the pending forwards before it. If a
// backward uses one of these forwards, the graph may belong to that one alone, so none gets it.
void end_wait(RootModule& root, std::uint32_t event) {
  const auto pending = root.forwards.begin() + static_cast<std::ptrdiff_t>(root.first_pending);
  const bool is_clear =
      std::none_of(pending, root.forwards.end(), std::mem_fn(&ModuleForward::is_used));
  if (is_clear) {
    std::for_each(pending, root.forwards.end(),
                  [&](ModuleForward& forward) { forward.next_graph = event; });
  }
  root.first_pending = root.forwards.size();
}

void split_by_forward(const Peak& peak, const BackwardUse& use, RootModules& roots) {
  const std::set<std::string_view> losses = roots_without_parameters(peak);
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view name = root_of(peak.trace().strings[peak.site(allocation).layer]);
    if (losses.contains(name)) return;
    const bool is_forward = peak.phase(allocation) == model::Phase::kForward;
    for (auto& [other, root] : roots) {
      if (other == name) continue;
      if (root.is_open) close_forward(peak, use, root);
      if (!is_forward) continue;
      if (name.empty()) {
        end_wait(root, allocation.born);
      } else {
        root.first_pending = root.forwards.size();  // the graph may be of the other module
      }
    }
    const auto found = roots.find(name);
    if (found == roots.end() || !may_be_of_graph(peak, allocation)) return;
    add_activation(peak, use, allocation, found->second);
  });
  for (auto& [name, root] : roots) {
    if (root.is_open) close_forward(peak, use, root);
  }
}

// The tensors that a forward in training keeps for its backward, by layer and operator.
Calls kept_in_training(const RootModule& root) {
  Calls kept;
  for (const auto& [call, count] : root.kept) {
    // Operators of a branch that few forwards take do not count.
    const std::size_t in_one = (count + root.used_forwards / 2) / root.used_forwards;
    if (in_one > 0) kept.emplace(call, in_one);
  }
  return kept;
}

bool outlives(const ModuleForward& forward, const PeakAllocation& activation) {
  return activation.died > forward.next_graph;
}

bool builds_graph(const Peak& peak, const BackwardUse& use, const ModuleForward& forward,
                  Calls wanted) {
  if (forward.activations.empty() || forward.next_graph == model::kNone) return false;
  if (is_known_without_nodes(peak, forward.activations)) return false;
  for (const PeakAllocation& each : forward.activations) {
    const auto found = wanted.find(layer_operator(peak, each));
    if (found != wanted.end() && found->second > 0 && outlives(forward, each)) --found->second;
  }
  const bool is_as_in_training =
      std::ranges::all_of(wanted, [](const auto& each) { return each.second == 0; });
  if (!is_as_in_training) return false;
  // If the program ends in the forward, or in the backward after it, its purpose is unknown.
  PeakAllocation last = forward.activations.back();
  for (const PeakAllocation& each : forward.activations) last.died = std::max(last.died, each.died);
  return !use.may_be_used(last, forward.activations.size()) && !use.is_of_failed_forward(last) &&
         !(last.died == model::kNone && use.is_before_last_backward(last));
}

// Adds the activations of a forward that are live at the peak.
void add_forward(const Peak& peak, const ModuleForward& forward,
                 const std::unordered_map<std::uint32_t, std::uint32_t>& part_of,
                 SmallGraphs& graphs) {
  const auto after =
      std::ranges::upper_bound(forward.activations, peak.event(), {}, &PeakAllocation::born);
  const auto made = static_cast<std::size_t>(after - forward.activations.begin());
  const bool is_running = after != forward.activations.end();
  const std::size_t without_graph = is_running ? kOfRunningForward : 1;
  std::vector<std::uint32_t> live;
  for (std::size_t i = 0; i < made; ++i) {
    const PeakAllocation& each = forward.activations[i];
    const auto found = part_of.find(each.lifetime);
    if (found == part_of.end()) continue;
    live.push_back(found->second);
    if (i + without_graph < made && outlives(forward, each)) graphs.freed_bytes += each.size_bytes;
  }
  if (live.empty()) return;
  ++graphs.forwards;
  graphs.in_one_forward = std::max(graphs.in_one_forward, forward.activations.size());
  graphs.parts.insert(graphs.parts.end(), live.begin(), live.end());
}

}  // namespace

std::vector<SmallGraphs> small_graphs(const Peak& peak, const BackwardUse& use) {
  RootModules roots = roots_at_peak(peak, use);
  if (roots.empty()) return {};
  split_by_forward(peak, use, roots);
  std::unordered_map<std::uint32_t, std::uint32_t> part_of;  // by lifetime
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    part_of.emplace(peak.live()[part].lifetime, part);
  }
  std::vector<SmallGraphs> found;
  for (const auto& [name, root] : roots) {
    const Calls wanted = kept_in_training(root);
    if (wanted.empty() && !peak.backward_begins().empty()) continue;
    SmallGraphs graphs;
    graphs.root = name;
    for (const ModuleForward& forward : root.forwards) {
      if (builds_graph(peak, use, forward, wanted)) add_forward(peak, forward, part_of, graphs);
    }
    const bool is_much = is_at_least(graphs.freed_bytes, kSmallGraphsShareOfPeak, peak.bytes());
    if (graphs.forwards > 0 && is_much) found.push_back(std::move(graphs));
  }
  return found;
}

}  // namespace plimsoll::analysis::findings
