// one_line_dominates, for a line that makes many tensors and keeps them: sets of noise, gradients
// of single samples. A line that makes activations runs over layers, and is left to these.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "analysis/findings/peak.h"
#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

// Less than for few large tensors, copies and batches: these say what the tensors are.
constexpr double kWeight = 1.5;
constexpr std::size_t kFewestTensors = 5;
constexpr std::uint64_t kSmallBytes = 4096;

// Whether it is made in backward by a function of the program: a hook, or an autograd.Function,
// whose nodes have no number ("GateBackward"), as those of torch have ("MulBackward0").
bool is_of_own_backward(const Peak& peak, const PeakAllocation& allocation) {
  if (peak.phase(allocation) != model::Phase::kBackward) return false;
  return peak.trace().strings[peak.site(allocation).op].ends_with("Backward");
}

bool is_outside_model(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone || allocation.size_bytes < kSmallBytes) return false;
  const std::string_view category = peak.category(allocation);
  const model::Phase phase = peak.phase(allocation);
  if (category == model::kActivationGradient) return is_of_own_backward(peak, allocation);
  const bool is_kind =
      category == model::kOther || category == model::kInput || category == model::kBuffer;
  return is_kind && (phase == model::Phase::kOther || phase == model::Phase::kData);
}

}  // namespace

void explain_many(Peak& peak, Explanations& out) {
  std::map<std::uint32_t, Explanation> lines;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation) || !is_outside_model(peak, allocation)) continue;
    lines[peak.line(allocation).value].add(peak, part);
  }
  for (auto& [line, explanation] : lines) {
    if (explanation.parts.size() < kFewestTensors || explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    const std::string label = peak.line_label(first);
    report::Finding& finding = explanation.finding;
    explanation.weight = kWeight;
    finding.id = "one_line_dominates";
    finding.title = counted(explanation.parts.size(), "tensor") + " of one line fill " +
                    share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                    " of " + bytes_text(peak.bytes()) + " at " + label;
    finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) +
                               callers_text(peak, first) + ", live simultaneously.");
    const bool are_buffers = peak.category(first) == model::kBuffer;
    if (are_buffers) finding.evidence.emplace_back("They are buffers of modules.");
    finding.next_step =
        "Keep fewer of the tensors that " + label + " makes: " +
        (are_buffers ? "share one among the modules, make it when it is needed, or keep it in a "
                       "smaller dtype (torch.bool for a mask)."
                     : "use each when it is made and drop it, make it again when it is needed "
                       "(random numbers from their seed), or keep them in a smaller dtype.");
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::analysis::findings
