// graph_without_backward: a forward built an autograd graph, and no backward ever used it.
#include <algorithm>
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
#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kShareOfPeak = 0.25;
constexpr double kWeight = 2.0;
// With a graph, autograd keeps most of what a forward makes. Without one, only what a local
// variable names is live: skip connections of a U-Net are a third of it.
constexpr double kKeptShare = 0.45;
constexpr std::size_t kFewestKept = 6;
// A smaller module keeps fewer. What it returns is live without a graph too, so such a forward
// counts if several are live, as in a buffer, if most of its bytes are not those of its result, and
// if it keeps the first tensor that it makes, which few modules return.
constexpr std::size_t kFewestOfSmall = 3;
constexpr std::size_t kFewestSmallForwards = 3;
constexpr double kMostInResult = 0.5;
// Several forwards of a fused operator (aten::lstm) may leave nothing but results.
constexpr std::size_t kFewestCalls = 3;
// Or as much as a training forward of the module keeps, where there is one.
constexpr double kShareOfTraining = 0.6;
// A backward frees most of what its forward kept.
constexpr double kFreedShare = 0.1;

// What a root module made in the whole recording.
struct Made {
  std::vector<std::uint32_t> births;             // up to the peak, ascending
  std::vector<std::uint32_t> freed_by_backward;  // births of these, ascending
  std::size_t trained = 0;  // intervals between backwards in which they were made
  std::size_t last_interval = 0;
  bool is_last_of_recording = false;  // the recording ends in its forward, or just after it
  std::size_t allocations = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> calls;  // by layer and operator
  std::uint64_t first_call = 0;

  // Allocations of one forward: how often most of its operators ran is how often it ran.
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

// A layer's operator.
std::uint64_t call_of(const Peak& peak, const PeakAllocation& allocation) {
  const model::Site& site = peak.site(allocation);
  return std::uint64_t{site.layer.value} << 32 | site.op.value;
}

// How many of the sorted births lie in [first, last].
std::size_t count_between(const std::vector<std::uint32_t>& births, std::uint32_t first,
                          std::uint32_t last) {
  return static_cast<std::size_t>(std::ranges::upper_bound(births, last) -
                                  std::ranges::lower_bound(births, first));
}

using Parts = std::span<const std::uint32_t>;

// Whether a forward that keeps `count` of the allocations in `window` keeps a graph.
bool is_graph(const Made& made, std::size_t count, std::size_t window) {
  const std::size_t in_training = made.freed_by_backward.size();
  const bool is_most = is_at_least(count, kKeptShare, window);
  const bool is_as_in_training = is_at_least(count * made.trained, kShareOfTraining, in_training);
  if (count < kFewestKept) return is_most && is_as_in_training;
  return is_most || (in_training > 0 && is_as_in_training);
}

std::uint64_t bytes_of(const Peak& peak, Parts parts) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t part : parts) bytes += peak.live()[part].size_bytes;
  return bytes;
}

// Whether a forward keeps `parts` for no backward.
bool is_unused_graph(const Peak& peak, const BackwardUse& use, const Made& made, Parts parts,
                     std::size_t window) {
  if (parts.size() < kFewestOfSmall || !is_graph(made, parts.size(), window)) return false;
  const std::uint64_t in_result = peak.live()[parts.back()].size_bytes;
  const bool is_result = !is_at_least(bytes_of(peak, parts), 1 / kMostInResult, in_result);
  const bool keeps_first = std::ranges::any_of(parts, [&](std::uint32_t part) {
    return call_of(peak, peak.live()[part]) == made.first_call;
  });
  if (parts.size() < kFewestKept && (is_result || !keeps_first)) return false;
  const std::size_t freed = count_between(made.freed_by_backward, peak.live()[parts.front()].born,
                                          peak.live()[parts.back()].born);
  PeakAllocation last = peak.live()[parts.back()];
  for (const std::uint32_t part : parts) last.died = std::max(last.died, peak.live()[part].died);
  // A program that ends in a forward, or in the backward after it, does not show what it is for.
  const bool is_cut_off = made.is_last_of_recording || use.is_before_last_backward(last);
  const bool is_used = is_at_least(freed, kFreedShare, parts.size()) ||
                       use.may_be_used(last, parts.size()) ||
                       (last.died == model::kNone && is_cut_off);
  return !is_used;
}

// Where the window of births begins that holds most of `parts`.
std::size_t fullest_window(const Peak& peak, const Made& made, Parts parts, std::size_t window) {
  const auto born = [&](std::size_t part) { return peak.live()[parts[part]].born; };
  std::size_t first = 0, begin = 0, count = 0;
  for (std::size_t last = 0; last < parts.size(); ++last) {
    while (count_between(made.births, born(first), born(last)) > window) ++first;
    if (last + 1 - first > count) begin = first, count = last + 1 - first;
  }
  return begin;
}

// Of `parts`, which lie between the same two backwards: by forward, those that each keeps for no
// backward. A loop that samples runs many forwards between two backwards; they are counted from the
// one that keeps most.
std::vector<Parts> kept_graphs(const Peak& peak, const BackwardUse& use, const Made& made,
                               Parts parts) {
  const std::size_t window = std::min(made.in_one_forward(), made.births.size());
  if (window == 0) return {};
  const auto birth = [&](std::size_t part) {
    return std::ranges::lower_bound(made.births, peak.live()[parts[part]].born) -
           made.births.begin();
  };
  // So that no number is negative.
  const auto length = static_cast<std::ptrdiff_t>(window);
  const std::ptrdiff_t anchor = birth(fullest_window(peak, made, parts, window)) % length;
  const auto forward = [&](std::size_t part) { return (birth(part) + length - anchor) / length; };
  std::vector<Parts> kept;
  for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    while (end < parts.size() && forward(end) == forward(begin)) ++end;
    const Parts of_forward = parts.subspan(begin, end - begin);
    if (is_unused_graph(peak, use, made, of_forward, window)) kept.push_back(of_forward);
  }
  return kept;
}

}  // namespace

void explain_graph(Peak& peak, Explanations& out) {
  const auto& trace = peak.trace();
  const BackwardUse use(peak);
  std::map<std::string_view, std::vector<std::uint32_t>> unused;  // parts, by root
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_forward_activation(peak, allocation) || use.is_freed_by_backward(allocation)) continue;
    unused[root_of(trace.strings[peak.site(allocation).layer])].push_back(part);
  }
  const std::vector<std::uint32_t> losses = std::exchange(unused[{}], {});  // of no module
  std::erase_if(unused, [](const auto& parts) { return parts.second.size() < kFewestKept; });
  if (unused.empty()) return;
  std::map<std::string_view, Made> made_by;
  for (const auto& [root, parts] : unused) made_by[root];
  std::string_view last_root;  // of the forward that allocates last
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view layer_now = trace.strings[peak.site(allocation).layer];
    const bool is_forward = peak.phase(allocation) == model::Phase::kForward;
    last_root = is_forward ? root_of(layer_now) : std::string_view();
    if (!is_forward_activation(peak, allocation)) return;
    const auto found = made_by.find(root_of(layer_now));
    if (found == made_by.end()) return;
    Made& made = found->second;
    const std::uint64_t call = call_of(peak, allocation);
    if (made.allocations++ == 0) made.first_call = call;
    ++made.calls[call];
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
  for (const auto& [root, parts] : unused) {
    const Made& made = made_by[root];
    std::vector<Parts> forwards;
    for (auto begin = parts.begin(); begin != parts.end();) {
      const std::size_t interval = use.interval(peak.live()[*begin]);
      const auto end = std::find_if(begin, parts.end(), [&](std::uint32_t part) {
        return use.interval(peak.live()[part]) != interval;
      });
      std::ranges::move(kept_graphs(peak, use, made, {begin, end}), std::back_inserter(forwards));
      begin = end;
    }
    if (forwards.size() < kFewestSmallForwards) {
      std::erase_if(forwards, [](Parts each) { return each.size() < kFewestKept; });
    }
    std::set<std::uint64_t> calls;
    for (const std::uint32_t part : forwards | std::views::join) {
      calls.insert(call_of(peak, peak.live()[part]));
    }
    if (forwards.size() > 1 && calls.size() < kFewestCalls) continue;
    Explanation explanation;
    bool outlives_backward = false;
    for (const std::uint32_t part : forwards | std::views::join) {
      explanation.add(peak, part);
      outlives_backward |= use.outlives_backward(peak.live()[part]);
    }
    const std::size_t kept = explanation.parts.size();
    // Not many modules can have this much, so that not many look at all losses.
    if (kept == 0 || !is_at_least(explanation.bytes, kShareOfPeak / 2, peak.bytes())) continue;
    const std::uint32_t since = peak.live()[explanation.parts.front()].born;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    for (const std::uint32_t part : losses) {
      const bool is_of_graph =
          peak.live()[part].born >= since && !use.may_be_used(peak.live()[part]);
      if (is_of_graph) explanation.add(peak, part);
    }
    if (explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPeak, peak.bytes())) continue;
    report::Finding& finding = explanation.finding;
    explanation.weight = kWeight;
    finding.id = "graph_without_backward";
    finding.title = (forwards.size() == 1 ? "A forward of " + std::string(root) + " builds a graph"
                                          : "Forwards of " + std::string(root) + " build graphs") +
                    " that no backward uses: " + bytes_text(explanation.bytes) + " of " +
                    bytes_text(peak.bytes()) + " at the peak on " + peak.device().name;
    finding.evidence.push_back(counted(kept, "activation") + " are live at the peak, of " +
                               counted(forwards.size(), "forward") + " of about " +
                               counted(made.in_one_forward(), "allocation") + " each. " +
                               (outlives_backward
                                    ? "The backwards that run meanwhile free none of them."
                                    : "No backward begins before they are freed."));
    finding.evidence.push_back("The first of them is made at " + peak.line_label(first) +
                               callers_text(peak, first) + ".");
    finding.next_step =
        "Run what no backward uses (validation, inference, a teacher) under torch.no_grad() or "
        "torch.inference_mode(): no activation is kept for backward.";
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::analysis::findings
