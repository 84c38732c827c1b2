// one_line_dominates, for a line that makes many tensors and keeps them: sets of noise, per-sample
// gradients, outputs of a model for many batches. A line that allocates activations for a backward
// loops over layers, and the layer explanations cover it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kFewestTensors = 5;
constexpr std::size_t kFewestCollectingSteps = 8;  // that collect outputs

// Whether a function of the program, a hook or an autograd.Function, allocates it in backward.
bool is_of_own_backward(const Peak& peak, const PeakAllocation& allocation) {
  return peak.phase(allocation) == model::Phase::kBackward &&
         peak.op(allocation).has(evidence::Operator::kOwnNode);
}

// Whether the first backward after its birth frees it, as it does with memory saved by forward.
bool is_used_by_backward(const Peak& peak, const PeakAllocation& allocation) {
  const auto begin = std::ranges::upper_bound(peak.backward_begins(), allocation.born);
  if (begin == peak.backward_begins().end()) return false;
  const auto end = std::ranges::lower_bound(peak.backward_ends(), *begin);
  return allocation.died > *begin && (end == peak.backward_ends().end() || allocation.died <= *end);
}

// An output of a model that the program keeps and no backward uses. Memory live when the recording
// ends may be for a backward that has not begun.
bool is_kept_output(const Peak& peak, const PeakAllocation& allocation) {
  if (peak.category(allocation) != model::kActivation || peak.is_inferred()) return false;
  if (allocation.size_bytes < kSmallTensorBytes) return false;
  const bool is_open = allocation.died == model::kNone && !peak.meets_backward(allocation);
  return !is_open && !is_used_by_backward(peak, allocation);
}

bool is_outside_model(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone || allocation.size_bytes < kSmallTensorBytes) return false;
  const std::string_view category = peak.category(allocation);
  const model::Phase phase = peak.phase(allocation);
  if (category == model::kActivationGradient) return is_of_own_backward(peak, allocation);
  const bool is_kind =
      category == model::kOtherCategory || category == model::kInput || category == model::kBuffer;
  return is_kind && (phase == model::Phase::kOther || phase == model::Phase::kData);
}

// Whether the outputs belong to training. Outputs of an evaluation are left to explain_outside, and
// those that steps collect are left to explain_epoch.
bool are_for_training(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  if (!peak.is_in_training()) return false;
  std::set<std::size_t> steps;
  for (const std::uint32_t part : parts) steps.insert(peak.step(peak.live()[part].born));
  return !peak.has_steps() || steps.size() < kFewestCollectingSteps;
}

}  // namespace

void explain_many(Peak& peak, Explanations& out) {
  // By line; outputs also by stack, layer and size, so that a group has the outputs of one module.
  using Key = std::array<std::uint64_t, 4>;
  std::map<Key, Explanation> lines;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation)) continue;
    const std::uint32_t line = peak.line(allocation).value;
    if (is_outside_model(peak, allocation)) {
      lines[Key{line}].add(peak, part);
    } else if (is_kept_output(peak, allocation)) {
      lines[Key{line, allocation.stack.value, peak.layer(allocation).value + std::uint64_t{1},
                allocation.size_bytes}]
          .add(peak, part);
    }
  }
  for (auto& [key, explanation] : lines) {
    if (explanation.parts.size() < kFewestTensors || explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    const std::string label = peak.line_label(first);
    report::Finding& finding = explanation.finding;
    const bool are_outputs = key[2] != 0;
    if (are_outputs && are_for_training(peak, explanation.parts)) explanation.kind = Kind::kMistake;
    finding.id = "one_line_dominates";
    finding.title = counted(explanation.parts.size(), "tensor") + " of one line fill " +
                    share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                    " of " + bytes_text(peak.bytes()) + " at " + label;
    finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) +
                               callers_text(peak, first) + ", live simultaneously.");
    const bool are_buffers = peak.category(first) == model::kBuffer;
    if (are_outputs) {
      finding.evidence.emplace_back("A forward made each of them, and no backward uses it.");
    }
    if (are_buffers) finding.evidence.emplace_back("They are buffers of modules.");
    finding.steps = {
        {"Keep fewer of the tensors that " + label + " makes: " +
         (are_buffers ? "share one among the modules, or make it when it is needed."
          : are_outputs
              ? "reduce each to what you need (a loss, the index of the best class), or write it "
                "to a file."
              : "use each when it is made and drop it, or make it again when it is needed (random "
                "numbers from their seed).")},
        {are_buffers ? "Keep them in a smaller dtype (torch.bool for a mask)."
                     : "Keep them in a smaller dtype."}};
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::findings
