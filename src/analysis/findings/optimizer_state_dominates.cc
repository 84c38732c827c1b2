// optimizer_state_dominates, optimizer_scratch: the optimizer's own tensors are the largest part of
// the peak, or what its step allocates for a while is a large one.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/findings/peak.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr std::size_t kKindsNamed = 3;
constexpr double kShareOfScratch = 0.15;
// An option avoids it. Adam's state is twice as large as the scratch of its step, and comes second.
constexpr double kScratchWeight = 2.1;
constexpr std::size_t kFewestScratch = 4;
constexpr std::uint64_t kScratchOfOne = 3;

struct State {
  std::uint64_t float32_bytes = 0;
  std::map<std::string_view, std::uint64_t> by_kind;  // "exp_avg", the end of the tensor's name
};

State state_at(const Peak& peak, Explanation& explanation) {
  State state;
  const auto& strings = peak.trace().strings;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kOptimizerState) continue;
    explanation.add(peak, part);
    const model::Tensor& tensor = peak.tensor(allocation);
    if (strings[tensor.dtype] == "float32") state.float32_bytes += allocation.size_bytes;
    const std::string_view name = strings[tensor.name];
    const std::size_t dot = name.rfind('.');
    if (dot != std::string_view::npos) {
      state.by_kind[name.substr(dot + 1)] += allocation.size_bytes;
    }
  }
  return state;
}

std::string kinds_text(const State& state) {
  std::vector<std::pair<std::string_view, std::uint64_t>> kinds(state.by_kind.begin(),
                                                                state.by_kind.end());
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [](const auto& kind) { return kind.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kKindsNamed, kinds.size()); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(kinds[i].first) + " " +
            bytes_text(kinds[i].second);
  }
  return text;
}

void explain_state(const Peak& peak, Explanations& out) {
  Explanation explanation;
  const State state = state_at(peak, explanation);
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfState, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_state_dominates";
  finding.title = "Optimizer state is " + share_text(peak, bytes) + ": " + bytes_text(bytes) +
                  " of " + bytes_text(peak.bytes());
  if (!state.by_kind.empty()) finding.evidence.push_back("It is " + kinds_text(state) + ".");
  // Of a snapshot the dtype is unknown.
  finding.next_step =
      std::string(peak.is_inferred()
                      ? "Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao), shard"
                      : "Shard") +
      " it over your devices (FSDP, ZeRO), or use an optimizer with less state (Adafactor, SGD).";
  if (state.float32_bytes > 0) {
    finding.evidence.push_back(bytes_text(state.float32_bytes) + " of it are float32.");
    finding.saving_bytes = state.float32_bytes / 4 * 3;
    finding.next_step = "Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao): that saves " +
                        bytes_text(finding.saving_bytes) +
                        ". Or shard it over your devices (FSDP, ZeRO).";
  }
  out.push_back(std::move(explanation));
}

bool is_scratch(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view category = peak.category(allocation);
  const bool is_short_lived = category == model::kOptimizerScratch || category == model::kOther ||
                              category == model::kTemporary;
  return is_short_lived && peak.is_of_optimizer(allocation);
}

void explain_scratch(const Peak& peak, Explanations& out) {
  Explanation explanation;
  std::uint64_t largest = 0;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_scratch(peak, allocation)) continue;
    explanation.add(peak, part);
    largest = std::max(largest, allocation.size_bytes);
  }
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfScratch, peak.bytes())) return;
  if (explanation.parts.size() < kFewestScratch) return;
  explanation.weight = kScratchWeight;
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_scratch";
  finding.title = "What the optimizer allocates within its step is " + share_text(peak, bytes) +
                  ": " + bytes_text(bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back(
      counted(explanation.parts.size(), "temporary tensor") +
      " are live simultaneously: the foreach implementation updates all parameters together.");
  const std::uint64_t all = peak.saving([&](const PeakAllocation& allocation) {
    return is_scratch(peak, allocation) ? allocation.born : allocation.died;
  });
  // One parameter at a time needs a few of its size.
  finding.saving_bytes = all - std::min(all, kScratchOfOne * largest);
  finding.next_step =
      "Pass foreach=False to the optimizer, which then updates one parameter after the other, or "
      "fused=True if there is a fused kernel.";
  if (finding.saving_bytes > 0) {
    finding.next_step += " The peak falls by " + bytes_text(finding.saving_bytes) + ".";
  }
  out.push_back(std::move(explanation));
}

}  // namespace

void explain_optimizer(Peak& peak, Explanations& out) {
  explain_state(peak, out);
  explain_scratch(peak, out);
}

}  // namespace plimsoll::analysis::findings
