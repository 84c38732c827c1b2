// graph_without_backward: a forward built an autograd graph, and no backward ever used it.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/findings/backward_use.h"
#include "analysis/findings/peak.h"
#include "analysis/findings/small_graphs.h"
#include "analysis/findings/text.h"
#include "analysis/findings/without_graph.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kGraphShareOfPeak = 0.25;
// With a graph, autograd keeps most of a forward's allocations. Without one, only tensors in local
// variables are live: in a U-Net, the skip connections are a third of the total.
constexpr double kGraphKeptShare = 0.45;
constexpr std::size_t kGraphFewestKept = 6;
// A small module keeps fewer tensors, and its results are live even without a graph. Its forwards
// therefore count only if several are live, if most of their bytes are not results, and if the
// first tensor is kept, which few modules return. Alternatively, each operator must keep as many
// tensors as a training forward keeps for its backward.
constexpr std::size_t kFewestOfSmall = 3;
constexpr std::size_t kFewestAsInTraining = 2;
constexpr std::size_t kFewestSmallForwards = 3;
constexpr double kMostInResult = 0.5;
// Several forwards of a fused operator (aten::lstm) may keep only their results.
constexpr std::size_t kFewestCalls = 3;
// Alternatively, a forward must keep this share of what a training forward of the module keeps.
constexpr double kShareOfTraining = 0.6;
// A backward frees most of what its forward kept.
constexpr double kFreedShare = 0.1;

// The first allocation after forward operators have passed to another root, or to code outside all
// modules.
struct Turn {
  std::uint32_t born = 0;
  std::string_view root;
};
using Turns = std::vector<Turn>;

// The allocations of a root module over the whole recording.
struct RootAllocations {
  std::vector<std::uint32_t> births;             // up to the peak, ascending
  std::vector<std::uint32_t> freed_by_backward;  // births of those that a backward frees, ascending
  std::size_t trained = 0;                       // intervals between backwards that contain its
                                                 // allocations
  std::size_t last_interval = 0;
  // Allocations that a backward frees, by layer and operator, over the whole recording; and the
  // number of intervals between backwards that contain them.
  std::unordered_map<std::uint64_t, std::uint32_t> used_calls;
  std::size_t used_intervals = 0;
  std::size_t last_used_interval = 0;
  bool is_last_of_recording = false;  // the recording ends in its forward, or just after it
  std::size_t allocations = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> calls;  // by layer and operator
  std::uint64_t first_call = 0;

  // Allocations per forward. The module runs as often as most of its operators do.
  std::size_t in_one_forward() const {
    std::unordered_map<std::uint32_t, std::uint32_t> how_often;
    for (const auto& [call, count] : calls) ++how_often[count];
    std::uint32_t forwards = 1, most = 0;
    for (const auto& [count, operators] : how_often) {
      const bool is_better = operators > most || (operators == most && count < forwards);
      if (is_better) forwards = count, most = operators;
    }
    return allocations / std::max<std::uint32_t>(1, forwards);
  }
};

// The number of the sorted births in [first, last].
std::size_t count_between(const std::vector<std::uint32_t>& births, std::uint32_t first,
                          std::uint32_t last) {
  return static_cast<std::size_t>(std::ranges::upper_bound(births, last) -
                                  std::ranges::lower_bound(births, first));
}

using Parts = std::span<const std::uint32_t>;

// Whether a forward that keeps `count` of the allocations in `window` keeps a graph.
bool is_graph(const RootAllocations& made, std::size_t count, std::size_t window) {
  const std::size_t in_training = made.freed_by_backward.size();
  const bool is_most = is_at_least(count, kGraphKeptShare, window);
  const bool is_as_in_training = is_at_least(count * made.trained, kShareOfTraining, in_training);
  if (count < kGraphFewestKept) return is_most && is_as_in_training;
  return is_most || (in_training > 0 && is_as_in_training);
}

// Whether each call keeps at least as many tensors as a training forward of the module does.
bool keeps_as_in_training(const Peak& peak, const RootAllocations& made, Parts parts) {
  std::unordered_map<std::uint64_t, std::size_t> kept;
  for (const std::uint32_t part : parts) ++kept[layer_operator(peak, peak.live()[part])];
  std::size_t used = 0;
  for (const auto& [call, count] : made.used_calls) {
    // Operators of a branch that few forwards take do not count.
    const std::size_t in_one = (count + made.used_intervals / 2) / made.used_intervals;
    const auto found = kept.find(call);
    if (in_one > (found == kept.end() ? 0 : found->second)) return false;
    used += in_one;
  }
  return used >= kFewestAsInTraining;
}

std::uint64_t bytes_of(const Peak& peak, Parts parts) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t part : parts) bytes += peak.live()[part].size_bytes;
  return bytes;
}

// Whether the first operator after a forward is outside all modules and builds a graph. The
// recorder attributes such an operator to forward only if it builds a graph, so the results of a
// forward without a graph lead to none.
bool is_followed_by_graph(const Peak& peak, const RootAllocations& made, const Turns& turns,
                          Parts parts, std::size_t window) {
  const std::uint32_t last = peak.live()[parts.back()].born;
  const auto next = std::ranges::upper_bound(turns, last, {}, &Turn::born);
  if (next == turns.end() || !next->root.empty()) return false;
  return count_between(made.births, last + 1, next->born) < window;
}

// Whether a forward after `last`, which a backward uses, begins while `last` is live.
bool is_retried(const RootAllocations& made, const PeakAllocation& last) {
  return count_between(made.freed_by_backward, last.born + 1, last.died - 1) > 0;
}

// Whether a forward keeps `parts` without any backward that uses them.
bool is_unused_graph(const Peak& peak, const BackwardUse& use, const RootAllocations& made,
                     const Turns& turns, Parts parts, std::size_t window) {
  const auto allocation_of = [&](std::uint32_t part) { return peak.live()[part]; };
  if (is_known_without_nodes(peak, parts | std::views::transform(allocation_of))) return false;
  const bool is_small = parts.size() < kGraphFewestKept;
  const bool has_nodes = std::ranges::all_of(parts, [&](std::uint32_t part) {
    return peak.site(allocation_of(part)).autograd == model::Autograd::kBuilt;
  });
  const bool is_as_in_training =
      is_small && keeps_as_in_training(peak, made, parts) &&
      (has_nodes || is_followed_by_graph(peak, made, turns, parts, window));
  if (!is_as_in_training) {
    if (parts.size() < kFewestOfSmall || !is_graph(made, parts.size(), window)) return false;
  }
  const std::uint64_t in_result = peak.live()[parts.back()].size_bytes;
  const bool is_result = !is_at_least(bytes_of(peak, parts), 1 / kMostInResult, in_result);
  const bool keeps_first = std::ranges::any_of(parts, [&](std::uint32_t part) {
    return layer_operator(peak, peak.live()[part]) == made.first_call;
  });
  if (is_small && (is_result || !(keeps_first || is_as_in_training))) return false;
  const std::size_t freed = count_between(made.freed_by_backward, peak.live()[parts.front()].born,
                                          peak.live()[parts.back()].born);
  PeakAllocation last = peak.live()[parts.back()];
  for (const std::uint32_t part : parts) last.died = std::max(last.died, peak.live()[part].died);
  // If the program ends in a forward, or in the backward after it, the purpose of the forward is
  // unknown.
  const bool is_cut_off = made.is_last_of_recording || use.is_before_last_backward(last);
  const bool is_used = is_at_least(freed, kFreedShare, parts.size()) ||
                       use.may_be_used(last, parts.size()) ||
                       (use.is_of_failed_forward(last) && !is_retried(made, last)) ||
                       (last.died == model::kNone && is_cut_off);
  return !is_used;
}

// The beginning of the window of births that contains the most `parts`.
std::size_t fullest_window(const Peak& peak, const RootAllocations& made, Parts parts,
                           std::size_t window) {
  const auto born = [&](std::size_t part) { return peak.live()[parts[part]].born; };
  std::size_t first = 0, begin = 0, count = 0;
  for (std::size_t last = 0; last < parts.size(); ++last) {
    while (count_between(made.births, born(first), born(last)) > window) ++first;
    if (last + 1 - first > count) begin = first, count = last + 1 - first;
  }
  return begin;
}

// Splits `parts`, which lie between the same two backwards, by forward, and returns the forwards
// that no backward uses. A sampling loop runs many forwards between two backwards; the split is
// aligned to the forward that keeps the most.
std::vector<Parts> kept_graphs(const Peak& peak, const BackwardUse& use,
                               const RootAllocations& made, const Turns& turns, Parts parts) {
  const std::size_t window = std::min(made.in_one_forward(), made.births.size());
  if (window == 0) return {};
  const auto birth = [&](std::size_t part) {
    return std::ranges::lower_bound(made.births, peak.live()[parts[part]].born) -
           made.births.begin();
  };
  // Adding `length` below keeps these signed numbers from being negative.
  const auto length = static_cast<std::ptrdiff_t>(window);
  const std::ptrdiff_t anchor = birth(fullest_window(peak, made, parts, window)) % length;
  const auto forward = [&](std::size_t part) { return (birth(part) + length - anchor) / length; };
  std::vector<Parts> kept;
  for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    while (end < parts.size() && forward(end) == forward(begin)) ++end;
    const Parts of_forward = parts.subspan(begin, end - begin);
    if (is_unused_graph(peak, use, made, turns, of_forward, window)) kept.push_back(of_forward);
  }
  return kept;
}

// Forwards of one root, or of several, that build graphs that no backward uses.
struct Graphs {
  std::string roots;
  std::size_t forwards = 0;
  std::size_t in_one_forward = 0;  // allocations
  std::size_t kept = 0;            // activations
  bool outlives_backward = false;
  // A single forward, called where others are trained, that is live while the next of them runs.
  bool is_attempt = false;
  std::uint64_t freed_bytes = 0;  // at the peak, without a graph; 0 if unknown
  Explanation explanation;
};

// Merges the graphs of several roots: an actor and a critic without no_grad are one mistake. The
// root with the most bytes is named first, and its forwards are described.
Graphs merged(const Peak& peak, std::vector<Graphs> found) {
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const Graphs& each) { return each.explanation.bytes; });
  Graphs all = std::move(found.front());
  for (std::size_t i = 1; i < found.size(); ++i) {
    const Graphs& each = found[i];
    all.roots += (i + 1 < found.size() ? ", " : " and ") + each.roots;
    all.forwards += each.forwards;
    all.kept += each.kept;
    all.outlives_backward |= each.outlives_backward;
    all.is_attempt &= each.is_attempt;
    all.freed_bytes += each.freed_bytes;
    for (const std::uint32_t part : each.explanation.parts) all.explanation.add(peak, part);
  }
  return all;
}

// Writes the finding. The first part must belong to a forward.
void describe(const Peak& peak, Graphs& graphs) {
  Explanation& explanation = graphs.explanation;
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  report::Finding& finding = explanation.finding;
  explanation.kind = Kind::kMistake;
  finding.id = "graph_without_backward";
  finding.title = (graphs.forwards == 1 ? "A forward of " + graphs.roots + " builds a graph"
                                        : "Forwards of " + graphs.roots + " build graphs") +
                  " that no backward uses: " + bytes_text(explanation.bytes) + " of " +
                  bytes_text(peak.bytes()) + " at the peak on " + peak.device().name;
  finding.evidence.push_back(counted(graphs.kept, "activation") + " are live at the peak, of " +
                             counted(graphs.forwards, "forward") + " of about " +
                             counted(graphs.in_one_forward, "allocation") + " each. " +
                             (graphs.outlives_backward
                                  ? "The backwards that run meanwhile free none of them."
                                  : "No backward begins before they are freed."));
  finding.evidence.push_back("The first of them is made at " + peak.line_label(first) +
                             callers_text(peak, first) + ".");
  const std::string caller = peak.facts().lines.caller(first.stack);
  if (!caller.empty()) finding.evidence.push_back("The forward is called at " + caller + ".");
  if (graphs.freed_bytes > 0) {
    finding.evidence.push_back("Without a graph, " + bytes_text(graphs.freed_bytes) +
                               " of them would be freed before the peak: they are inputs of later "
                               "operators of the module, not its results.");
  }
  finding.steps = {
      {"Run what no backward uses (validation, inference, a teacher) under torch.no_grad() or "
       "torch.inference_mode(): no activation is kept for backward."}};
  if (graphs.forwards > 1 && graphs.outlives_backward) {
    finding.steps.push_back({"If the program stores the results, store their .detach()."});
  }
  if (!graphs.is_attempt) return;
  finding.evidence.push_back("Other forwards that are called there are used by a backward.");
  finding.title = "The activations of an attempt that failed, or whose result was dropped, are " +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes()) + " while the next forward of " + graphs.roots +
                  " runs";
  finding.steps = {
      {"If the program retries after an exception, leave the except block first: the traceback of "
       "the exception retains the frames of the attempt, with their tensors."},
      {"Delete (del) the result of the attempt before the next forward."},
      {"If it is an evaluation, run it under torch.no_grad()."}};
}

// The line that calls the forward of an allocation.
std::string caller_of(const Peak& peak, const PeakAllocation& allocation) {
  std::string caller = peak.facts().lines.caller(allocation.stack);
  return caller.empty() ? peak.line_label(allocation) : caller;
}

// Whether a backward uses forwards of the root that are called where this one is.
bool is_of_training_call(const Peak& peak, const BackwardUse& use, std::string_view root,
                         const PeakAllocation& unused) {
  const std::string caller = caller_of(peak, unused);
  std::unordered_map<std::uint32_t, bool> is_same;  // by stack
  bool is_found = false;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (is_found || !is_forward_activation(peak, allocation)) return;
    if (!use.is_freed_by_backward(allocation)) return;
    if (root_of(peak.trace().strings[peak.site(allocation).layer]) != root) return;
    const auto [same, is_new] = is_same.try_emplace(allocation.stack.value);
    if (is_new) same->second = caller_of(peak, allocation) == caller;
    is_found = same->second;
  });
  return is_found;
}

using PartsByRoot = std::map<std::string_view, std::vector<std::uint32_t>>;

// Judges forwards by the number of activations that they keep.
std::vector<Graphs> graphs_by_number(const Peak& peak, const BackwardUse& use, PartsByRoot unused) {
  const auto& trace = peak.trace();
  std::erase_if(unused, [](const auto& parts) { return parts.second.size() < kGraphFewestKept; });
  if (unused.empty()) return {};
  std::map<std::string_view, RootAllocations> made_by;
  for (const auto& [root, parts] : unused) made_by[root];
  Turns turns;
  const std::set<std::string_view> losses = roots_without_parameters(peak);
  std::string_view last_root;  // the root of the forward that allocates last
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view layer_now = trace.strings[peak.site(allocation).layer];
    if (losses.contains(root_of(layer_now))) return;
    const bool is_forward = peak.phase(allocation) == model::Phase::kForward;
    last_root = is_forward ? root_of(layer_now) : std::string_view();
    const bool is_turn = is_forward && (turns.empty() || turns.back().root != last_root);
    if (is_turn) turns.push_back({allocation.born, last_root});
    if (!may_be_of_graph(peak, allocation)) return;
    const auto found = made_by.find(root_of(layer_now));
    if (found == made_by.end()) return;
    RootAllocations& made = found->second;
    const std::uint64_t call = layer_operator(peak, allocation);
    if (made.allocations++ == 0) made.first_call = call;
    ++made.calls[call];
    if (use.is_freed_by_backward(allocation)) {
      const std::size_t interval = use.interval(allocation);
      const bool is_new = made.used_intervals == 0 || made.last_used_interval != interval;
      if (is_new) ++made.used_intervals;
      made.last_used_interval = interval;
      ++made.used_calls[call];
    }
    if (allocation.born > peak.event()) return;
    made.births.push_back(allocation.born);
    if (!use.is_freed_by_backward(allocation)) return;
    made.freed_by_backward.push_back(allocation.born);
    if (made.trained == 0 || made.last_interval != use.interval(allocation)) ++made.trained;
    made.last_interval = use.interval(allocation);
  });
  if (const auto found = made_by.find(last_root); found != made_by.end()) {
    found->second.is_last_of_recording = true;
  }
  std::vector<Graphs> found;  // by root
  for (const auto& [root, parts] : unused) {
    const RootAllocations& made = made_by[root];
    std::vector<Parts> forwards;
    for (auto begin = parts.begin(); begin != parts.end();) {
      const std::size_t interval = use.interval(peak.live()[*begin]);
      const auto end = std::find_if(begin, parts.end(), [&](std::uint32_t part) {
        return use.interval(peak.live()[part]) != interval;
      });
      std::ranges::move(kept_graphs(peak, use, made, turns, {begin, end}),
                        std::back_inserter(forwards));
      begin = end;
    }
    if (forwards.size() < kFewestSmallForwards) {
      std::erase_if(forwards, [](Parts each) { return each.size() < kGraphFewestKept; });
    }
    std::set<std::uint64_t> calls;
    for (const std::uint32_t part : forwards | std::views::join) {
      calls.insert(layer_operator(peak, peak.live()[part]));
    }
    const bool are_as_in_training = std::ranges::all_of(
        forwards, [&](Parts each) { return keeps_as_in_training(peak, made, each); });
    if (forwards.size() > 1 && calls.size() < kFewestCalls && !are_as_in_training) continue;
    Graphs graphs;
    graphs.roots = std::string(root);
    graphs.forwards = forwards.size();
    graphs.in_one_forward = made.in_one_forward();
    if (forwards.size() == 1) {
      const PeakAllocation& last = peak.live()[forwards.front().back()];
      graphs.is_attempt = is_retried(made, last) && is_of_training_call(peak, use, root, last);
    }
    for (const std::uint32_t part : forwards | std::views::join) {
      graphs.explanation.add(peak, part);
      graphs.outlives_backward |= use.outlives_backward(peak.live()[part]);
    }
    graphs.kept = graphs.explanation.parts.size();
    // Few modules can have this many bytes, so the losses are searched only a few times.
    const bool is_much = is_at_least(graphs.explanation.bytes, kGraphShareOfPeak / 2, peak.bytes());
    if (graphs.kept > 0 && is_much) found.push_back(std::move(graphs));
  }
  return found;
}

std::vector<Graphs> graphs_of_small(const Peak& peak, const BackwardUse& use) {
  std::vector<Graphs> found;
  for (SmallGraphs& small : small_graphs(peak, use)) {
    Graphs& graphs = found.emplace_back();
    graphs.roots = std::move(small.root);
    graphs.forwards = small.forwards;
    graphs.in_one_forward = small.in_one_forward;
    graphs.kept = small.parts.size();
    graphs.freed_bytes = small.freed_bytes;
    for (const std::uint32_t part : small.parts) {
      graphs.explanation.add(peak, part);
      graphs.outlives_backward |= use.outlives_backward(peak.live()[part]);
    }
  }
  return found;
}

// The fall of the peak if the forwards of these roots that no backward uses built no graph.
std::uint64_t saving_without(const Peak& peak, const BackwardUse& use, const Explanation& graphs) {
  const auto root_in = [&](const PeakAllocation& allocation) {
    return root_of(peak.trace().strings[peak.site(allocation).layer]);
  };
  std::set<std::string_view> roots;
  for (const std::uint32_t part : graphs.parts) roots.insert(root_in(peak.live()[part]));
  roots.erase(std::string_view());
  const auto freed = frees_without_graph(peak, [&](const PeakAllocation& allocation) {
    return roots.contains(root_in(allocation)) && may_be_of_graph(peak, allocation) &&
           !use.is_freed_by_backward(allocation);
  });
  return peak.saving([&](const PeakAllocation& allocation) {
    const auto found = freed.find(allocation.lifetime);
    return found == freed.end() ? allocation.died : std::min(found->second, allocation.died);
  });
}

// Adds the finding if the graphs are a large enough part of the peak.
bool add_graphs(const Peak& peak, const BackwardUse& use, std::vector<Graphs> found,
                const std::vector<std::uint32_t>& losses, Explanations& out) {
  if (found.empty()) return false;
  Graphs graphs = merged(peak, std::move(found));
  Explanation& explanation = graphs.explanation;
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  for (const std::uint32_t part : losses) {
    const PeakAllocation& loss = peak.live()[part];
    if (loss.born >= first.born && !use.may_be_used(loss)) explanation.add(peak, part);
  }
  if (explanation.bytes < kLeastPeakBytes) return false;
  if (!is_at_least(explanation.bytes, kGraphShareOfPeak, peak.bytes())) return false;
  describe(peak, graphs);
  if (!graphs.is_attempt) {
    explanation.finding.steps.front().saving_bytes = saving_without(peak, use, explanation);
  }
  out.push_back(std::move(explanation));
  return true;
}

}  // namespace

void explain_graph(Peak& peak, Explanations& out) {
  const BackwardUse use(peak);
  PartsByRoot unused;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!may_be_of_graph(peak, allocation) || use.is_freed_by_backward(allocation)) continue;
    unused[root_of(peak.trace().strings[peak.site(allocation).layer])].push_back(part);
  }
  const std::vector<std::uint32_t> losses = std::exchange(unused[{}], {});  // outside all modules
  std::vector<Graphs> found = graphs_by_number(peak, use, std::move(unused));
  if (add_graphs(peak, use, std::move(found), losses, out)) return;
  add_graphs(peak, use, graphs_of_small(peak, use), losses, out);
}

}  // namespace plimsoll::analysis::findings
