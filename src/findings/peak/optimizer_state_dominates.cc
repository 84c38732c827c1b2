// optimizer_state_dominates, optimizer_scratch: the optimizer's own tensors are the largest part of
// the peak, or the temporary memory of its step is a large part of it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/advice/line_advice.h"
#include "findings/peak/owners.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr double kStateShareOfOwner = 0.8;
constexpr double kShareOfKind = 0.5;  // of the state, for advice about one kind of it
constexpr std::size_t kFewestScratch = 4;
constexpr std::uint64_t kScratchOfOne = 3;

constexpr const char* kIn8Bits = "Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao).";

struct State {
  std::uint64_t float32_bytes = 0;
  std::map<std::string_view, std::uint64_t> by_kind;  // "exp_avg", the last part of the tensor's
                                                      // name
  std::map<std::string_view, std::uint64_t> by_parameter;  // the rest of the name
};

// For state of earlier optimizers: of the live state, all but the newest tensor of each name.
// Returns whether most of the state is such.
bool advise_stale(const Peak& peak, const Explanation& explanation, report::Finding& finding) {
  std::map<std::string_view, std::vector<std::uint32_t>> parts;  // by birth
  for (const std::uint32_t part : explanation.parts) {
    const std::string_view name = peak.trace().strings[peak.tensor(peak.live()[part]).name];
    if (!name.empty()) parts[name].push_back(part);
  }
  std::vector<std::uint32_t> stale;  // lifetimes
  std::uint64_t bytes = 0;
  std::size_t most = 0;
  for (const auto& [name, of_name] : parts) {
    most = std::max(most, of_name.size());
    for (std::size_t i = 0; i + 1 < of_name.size(); ++i) {
      stale.push_back(peak.live()[of_name[i]].lifetime);
      bytes += peak.live()[of_name[i]].size_bytes;
    }
  }
  if (!is_at_least(bytes, kShareOfKind, explanation.bytes)) return false;
  finding.evidence.push_back(bytes_text(bytes) +
                             " of it are older state of parameters that have newer state of the "
                             "same kind, up to " +
                             counted(most, "tensor") +
                             " each. The program retains optimizers that it has replaced.");
  finding.steps = {
      {"Drop each optimizer when its part of the training is over (a list or "
       "attribute retains them), or keep using one.",
       peak.replay().never_made(stale)}};
  return true;
}

// For the history of L-BFGS: two vectors of all parameters for each update, y (made by aten::sub)
// and s. Returns whether most of the state is such a history.
bool advise_history(const Peak& peak, const Explanation& explanation, report::Finding& finding) {
  std::uint64_t bytes = 0, vector_bytes = 0;
  std::size_t updates = 0;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.stacks().has(allocation.stack, evidence::StackFlag::kLbfgs)) continue;
    bytes += allocation.size_bytes;
    if (!peak.op(allocation).has(evidence::Operator::kDifference)) continue;
    ++updates;
    vector_bytes = std::max(vector_bytes, allocation.size_bytes);
  }
  if (updates < 2 || !is_at_least(bytes, kShareOfKind, explanation.bytes)) return false;
  const std::size_t half = (updates + 1) / 2;
  finding.evidence.push_back("L-BFGS keeps " + counted(updates, "update") + " of " +
                             bytes_text(2 * vector_bytes) +
                             " each: two vectors as long as all parameters, " +
                             bytes_text(updates * 2 * vector_bytes) + " in all.");
  finding.steps = {step_up_to("Pass a smaller history_size to torch.optim.LBFGS, such as " +
                                  base::format_count(half) + " instead of " +
                                  base::format_count(updates) + ".",
                              (updates - half) * 2 * vector_bytes)};
  return true;
}

void advise_embeddings(const Peak& peak, const State& state, report::Finding& finding) {
  const auto embeddings = dense_embeddings(peak);
  std::uint64_t bytes = 0, whole = 0;
  for (const auto& [parameter, of_parameter] : state.by_parameter) {
    whole += of_parameter;
    if (embeddings.contains(parameter)) bytes += of_parameter;
  }
  if (bytes == 0 || !is_at_least(bytes, kShareOfKind, whole)) return;
  finding.evidence.push_back(bytes_text(bytes) +
                             " of it belong to embeddings: to all rows, used or not.");
  Steps steps = steps_for_embeddings(peak, embeddings);
  finding.steps.insert(finding.steps.begin(), steps.begin(), steps.end());
}

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
      state.by_parameter[name.substr(0, dot)] += allocation.size_bytes;
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
  for (std::size_t i = 0; i < std::min(kNamed, kinds.size()); ++i) {
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
  const Owner owner = owner_of_most(state.by_parameter, kStateShareOfOwner);
  if (owner.path.find('.') != std::string::npos) {
    finding.evidence.push_back(bytes_text(owner.bytes) + " of it belong to " +
                               counted(owner.tensors, "parameter") + " of " + owner.path + ".");
  }
  // The dtype is unknown in a snapshot.
  if (peak.is_inferred()) finding.steps.push_back({kIn8Bits});
  finding.steps.push_back({"Shard it over your devices (FSDP, ZeRO)."});
  finding.steps.push_back({"Use an optimizer with less state (Adafactor, SGD)."});
  if (state.float32_bytes > 0) {
    finding.evidence.push_back(bytes_text(state.float32_bytes) + " of it are float32.");
    // Where the peak is without any state limits the saving.
    const std::uint64_t most = saving_if_absent(peak, [&](const PeakAllocation& each) {
      return peak.category(each) == model::kOptimizerState;
    });
    finding.steps = {step_up_to(kIn8Bits, std::min(state.float32_bytes / 4 * 3, most)),
                     {"Shard it over your devices (FSDP, ZeRO)."}};
  }
  if (!advise_history(peak, explanation, finding)) {
    const bool is_stale = advise_stale(peak, explanation, finding);
    if (is_stale) explanation.kind = Kind::kMistake;
    if (!is_stale) advise_embeddings(peak, state, finding);
  }
  out.push_back(std::move(explanation));
}

bool is_scratch(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view category = peak.category(allocation);
  const bool is_short_lived = category == model::kOptimizerScratch ||
                              category == model::kOtherCategory ||
                              category == model::kTemporaryCategory;
  return is_short_lived && peak.is_of_optimizer(allocation) &&
         !peak.stacks().has(allocation.stack,
                            evidence::StackFlag::kLbfgs);  // it has no foreach implementation
}

bool is_of_foreach(const Peak& peak, const PeakAllocation& allocation) {
  return peak.op(allocation).has(evidence::Operator::kForeach) ||
         peak.stacks().has(allocation.stack, evidence::StackFlag::kForeach);
}

Steps steps_for_foreach(const Peak& peak) {
  std::vector<std::uint32_t> scratch;
  std::uint64_t largest = 0;
  peak.for_each([&](const PeakAllocation& each) {
    if (!is_scratch(peak, each)) return;
    scratch.push_back(each.lifetime);
    largest = std::max(largest, each.size_bytes);
  });
  // Updating one parameter at a time needs only a few tensors of its size.
  const std::uint64_t all = peak.replay().never_made(scratch);
  return {{"Pass foreach=False to the optimizer, which then updates one parameter after the other.",
           all - std::min(all, kScratchOfOne * largest)},
          {"Pass fused=True to the optimizer if there is a fused kernel.", all}};
}

// For an optimizer that updates one parameter after the other, or is the program's own.
Steps steps_for_update(const Peak& peak, const Explanation& explanation) {
  const std::string line = line_of_most(peak, explanation.parts).first;
  if (peak.is_of_torch_optimizer(peak.live()[explanation.parts.front()]) || !is_named(line)) {
    return {{"Pass fused=True to the optimizer if there is a fused kernel."},
            {"Split the largest parameter."}};
  }
  return {{"Compute the update at " + line +
           " in place (mul_, add_, out=), one parameter at a time, and delete each temporary (del) "
           "after its last use."}};
}

void explain_scratch(const Peak& peak, Explanations& out) {
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    if (is_scratch(peak, peak.live()[part])) explanation.add(peak, part);
  }
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastHabitBytes || !is_at_least(bytes, kLeastShareOfMistake, peak.bytes())) return;
  if (explanation.parts.size() < kFewestScratch) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_scratch";
  finding.title = "What the optimizer allocates within its step is " + share_text(peak, bytes) +
                  ": " + bytes_text(bytes) + " of " + bytes_text(peak.bytes());
  const bool is_foreach = std::ranges::any_of(explanation.parts, [&](std::uint32_t part) {
    return is_of_foreach(peak, peak.live()[part]);
  });
  finding.evidence.push_back(
      counted(explanation.parts.size(), "temporary tensor") + " are live simultaneously: " +
      (is_foreach ? "the foreach implementation updates all parameters together."
                  : lines_text(peak, explanation.parts) + "."));
  finding.steps = is_foreach ? steps_for_foreach(peak) : steps_for_update(peak, explanation);
  out.push_back(std::move(explanation));
}

}  // namespace

void explain_optimizer(Peak& peak, Explanations& out) {
  explain_state(peak, out);
  explain_scratch(peak, out);
}

}  // namespace plimsoll::findings
