// graph_without_backward: a forward built an autograd graph, and no backward ever used it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

std::string_view root_of(std::string_view layer) { return layer.substr(0, layer.find('.')); }

bool is_activation(const Peak& peak, const PeakAllocation& allocation) {
  return peak.category(allocation) == model::kActivation &&
         peak.phase(allocation) == model::Phase::kForward &&
         !has(peak.trace().events.flags[allocation.event], model::EventFlags::kAdopted);
}

// What a root module made in the whole recording.
struct Made {
  std::vector<std::uint32_t> births;  // up to the peak, ascending
  std::size_t allocations = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> calls;  // by layer and operator

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

}  // namespace

void explain_graph(Peak& peak, Explanations& out) {
  const auto& trace = peak.trace();
  std::map<std::string_view, std::vector<std::uint32_t>> unused;  // parts, by root
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_activation(peak, allocation) || peak.meets_backward(allocation)) continue;
    unused[root_of(trace.strings[trace.events.layer[allocation.event]])].push_back(part);
  }
  const std::vector<std::uint32_t> losses = std::exchange(unused[{}], {});  // of no module
  std::erase_if(unused, [](const auto& parts) { return parts.second.size() < kFewestKept; });
  if (unused.empty()) return;
  std::map<std::string_view, Made> made_by;
  for (const auto& [root, parts] : unused) made_by[root];
  peak.for_each([&](const PeakAllocation& allocation) {
    if (!is_activation(peak, allocation)) return;
    const model::StringId layer = trace.events.layer[allocation.event];
    const auto found = made_by.find(root_of(trace.strings[layer]));
    if (found == made_by.end()) return;
    Made& made = found->second;
    ++made.calls[std::uint64_t{layer.value} << 32 | trace.events.op[allocation.event].value];
    ++made.allocations;
    if (allocation.born <= peak.event()) made.births.push_back(allocation.born);
  });
  for (const auto& [root, parts] : unused) {
    const Made& made = made_by[root];
    const std::size_t window = std::min(made.in_one_forward(), made.births.size());
    const std::uint32_t since = made.births[made.births.size() - std::max<std::size_t>(1, window)];
    Explanation explanation;
    for (const std::uint32_t part : parts) {
      if (peak.live()[part].born >= since) explanation.add(peak, part);
    }
    const std::size_t kept = explanation.parts.size();
    if (kept < kFewestKept || !is_at_least(kept, kKeptShare, window)) continue;
    // Not many modules can have this much, so that not many look at all losses.
    if (!is_at_least(explanation.bytes, kShareOfPeak / 2, peak.bytes())) continue;
    for (const std::uint32_t part : losses) {
      if (peak.live()[part].born >= since) explanation.add(peak, part);
    }
    if (explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPeak, peak.bytes())) continue;
    report::Finding& finding = explanation.finding;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    explanation.weight = kWeight;
    finding.id = "graph_without_backward";
    finding.title = "A forward of " + std::string(root) +
                    " builds a graph that no backward uses: " + bytes_text(explanation.bytes) +
                    " of " + bytes_text(peak.bytes()) + " at the peak on " + peak.device().name;
    finding.evidence.push_back(
        counted(kept, "activation") + " of about " + counted(window, "allocation") +
        " of a forward are live at the peak, and no backward begins before they are freed.");
    finding.evidence.push_back("The first of them is made at " + peak.line_label(first) +
                               callers_text(peak, first) + ".");
    finding.next_step =
        "Run validation and inference under torch.no_grad() or torch.inference_mode(): no "
        "activation is kept for backward.";
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::analysis::findings
