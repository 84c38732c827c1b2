// graph_without_backward for a snapshot, which records neither layers nor the beginning of a
// backward. Most of a forward's allocations are live at the peak, and are freed without any
// allocation by autograd.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr double kSnapshotGraphShareOfPeak = 0.25;
// With a graph, autograd keeps most of a forward's allocations. Without one, only tensors in local
// variables are live.
constexpr double kSnapshotGraphKeptShare = 0.45;
// Local variables may hold fewer than this.
constexpr std::size_t kSnapshotGraphFewestKept = 16;

bool is_of_backward(std::string_view category) {
  return category == model::kActivationGradient || category == model::kGradient;
}

// Births and deaths of activations up to the peak, and births in backward, by event.
struct SnapshotForward {
  std::vector<std::pair<std::uint32_t, int>> changes;  // event, +1 or -1
  std::vector<std::uint32_t> births;
  std::vector<std::uint32_t> backward;
  bool has_optimizer = false;

  // Every optimizer step follows a backward. If there is a step but no backward, the stacks do not
  // show backwards.
  bool shows_backward() const { return !backward.empty() || !has_optimizer; }
};

SnapshotForward forward_of(const Peak& peak) {
  SnapshotForward forward;
  std::vector<bool> is_known(peak.trace().stacks.stack_count());
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view category = peak.category(allocation);
    if (is_of_backward(category)) forward.backward.push_back(allocation.born);
    if (!is_known[allocation.stack.index()]) {
      is_known[allocation.stack.index()] = true;
      forward.has_optimizer = forward.has_optimizer || peak.is_of_optimizer(allocation);
    }
    if (category != model::kActivation || allocation.born > peak.event()) return;
    forward.births.push_back(allocation.born);
    forward.changes.emplace_back(allocation.born, 1);
    if (allocation.died <= peak.event()) forward.changes.emplace_back(allocation.died, -1);
  });
  std::ranges::sort(forward.changes);
  return forward;
}

// The first activation of the forward at the peak: no activation was live before it.
std::uint32_t begin_of(const SnapshotForward& forward) {
  std::uint32_t begin = 0;
  int live = 0;
  for (const auto& [event, change] : forward.changes) {
    if (live == 0) begin = event;
    live += change;
  }
  return begin;
}

// A compiled backward without native frames looks like a forward.
bool is_compiled(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  return std::ranges::any_of(parts, [&](std::uint32_t part) {
    return peak.stacks().has(peak.live()[part].stack, evidence::StackFlag::kCompiled);
  });
}

}  // namespace

void explain_graph_of_snapshot(Peak& peak, Explanations& out) {
  const SnapshotForward forward = forward_of(peak);
  if (!forward.shows_backward()) return;
  const std::uint32_t begin = begin_of(forward);
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kActivation) continue;
    // Memory live at the end of the history may still get its backward later.
    if (allocation.died == model::kNone) return;
    const auto next = std::ranges::upper_bound(forward.backward, allocation.born);
    if (next != forward.backward.end() && *next < allocation.died) return;
    explanation.add(peak, part);
  }
  const std::size_t kept = explanation.parts.size();
  const auto made = static_cast<std::size_t>(forward.births.end() -
                                             std::ranges::lower_bound(forward.births, begin));
  if (kept < kSnapshotGraphFewestKept || !is_at_least(kept, kSnapshotGraphKeptShare, made)) return;
  if (forward.backward.empty() && is_compiled(peak, explanation.parts)) return;
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kSnapshotGraphShareOfPeak, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  explanation.kind = Kind::kMistake;
  finding.id = "graph_without_backward";
  finding.title = "A forward keeps what only a backward uses, and none follows: " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) +
                  " at the peak on " + peak.device().name;
  finding.evidence.push_back(counted(kept, "activation") + " of " + counted(made, "activation") +
                             " created by the forward are live at the peak, and are freed without "
                             "any allocation by autograd.");
  const std::string path = path_text(peak, explanation.parts);
  if (!path.empty()) {
    finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
  }
  finding.steps = {
      {"Run validation, inference and measurements of forward under torch.no_grad() or "
       "torch.inference_mode(): no activation is kept for backward."}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
