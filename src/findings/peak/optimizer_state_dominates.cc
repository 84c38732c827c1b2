// optimizer_state_dominates, optimizer_scratch: the optimizer's own tensors are the largest part of
// the peak, or the temporary memory of its step is a large part of it.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/advice/advice.h"
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

using BytesByName = std::map<std::string_view, std::uint64_t>;

// For state of earlier optimizers: of the live state, all but the newest tensor of each name.
// Returns whether most of the state is such.
bool advise_stale(const Peak& peak, const Explanation& explanation, report::Finding& finding) {
  std::map<std::string_view, Parts> names;  // by birth
  for (const Allocation& each : explanation.parts) {
    if (!each.name().empty()) names[each.name()].push_back(each);
  }
  Parts stale;
  std::size_t most = 0;
  for (const auto& [name, parts] : names) {
    most = std::max(most, parts.size());
    stale.insert(stale.end(), parts.begin(), parts.end() - 1);
  }
  if (!is_at_least(bytes_of(stale), kShareOfKind, explanation.bytes)) return false;
  finding.evidence.push_back(bytes_text(bytes_of(stale)) +
                             " of it are older state of parameters that have newer state of the "
                             "same kind, up to " +
                             counted(most, "tensor") +
                             " each. The program retains optimizers that it has replaced.");
  finding.steps = {
      {"Drop each optimizer when its part of the training is over (a list or "
       "attribute retains them), or keep using one.",
       peak.replay().never_made(rows_of(stale))}};
  return true;
}

// For the history of L-BFGS: two vectors of all parameters for each update, y (made by aten::sub)
// and s. Returns whether most of the state is such a history.
bool advise_history(const Explanation& explanation, report::Finding& finding) {
  const Parts history = those_of(explanation.parts, [](const Allocation& each) {
    return each.has(evidence::StackFlag::kLbfgs);
  });
  const Parts vectors = those_of(history, [](const Allocation& each) {
    return each.op().has(evidence::Operator::kDifference);
  });
  const std::size_t updates = vectors.size(), half = (updates + 1) / 2;
  if (updates < 2 || !is_at_least(bytes_of(history), kShareOfKind, explanation.bytes)) return false;
  const std::uint64_t bytes = 2 * largest_of(vectors).size_bytes;
  finding.evidence.push_back("L-BFGS keeps " + counted(updates, "update") + " of " +
                             bytes_text(bytes) + " each: two vectors as long as all parameters, " +
                             bytes_text(updates * bytes) + " in all.");
  finding.steps = {step_up_to("Pass a smaller history_size to torch.optim.LBFGS, such as " +
                                  base::format_count(half) + " instead of " +
                                  base::format_count(updates) + ".",
                              (updates - half) * bytes)};
  return true;
}

void advise_embeddings(const Peak& peak, const BytesByName& by_parameter,
                       report::Finding& finding) {
  const auto embeddings = dense_embeddings(peak);
  std::uint64_t bytes = 0, whole = 0;
  for (const auto& [parameter, of_parameter] : by_parameter) {
    whole += of_parameter;
    if (embeddings.contains(parameter)) bytes += of_parameter;
  }
  if (bytes == 0 || !is_at_least(bytes, kShareOfKind, whole)) return;
  finding.evidence.push_back(bytes_text(bytes) +
                             " of it belong to embeddings: to all rows, used or not.");
  Steps steps = steps_for_embeddings(peak, embeddings);
  finding.steps.insert(finding.steps.begin(), steps.begin(), steps.end());
}

void explain_state(const Peak& peak, Explanations& out) {
  const auto is_state = [](const Allocation& each) { return each.is(model::kOptimizerState); };
  Explanation explanation(peak.live_if(is_state));
  if (!peak.is_much(explanation.bytes, kShareOfState)) return;
  BytesByName by_kind, by_parameter;  // the last part of the tensor's name ("exp_avg"); the rest
  for (const Allocation& each : explanation.parts) {
    const std::size_t dot = each.name().rfind('.');
    if (dot == std::string_view::npos) continue;
    by_kind[each.name().substr(dot + 1)] += each.size_bytes;
    by_parameter[each.name().substr(0, dot)] += each.size_bytes;
  }
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_state_dominates";
  finding.title = "Optimizer state is " + amount_text(peak, explanation.bytes);
  std::vector<std::string> kinds;
  for (const auto& [kind, bytes] : by_value(by_kind)) {
    kinds.push_back(std::string(kind) + " " + bytes_text(bytes));
  }
  if (!kinds.empty()) finding.evidence.push_back("It is " + joined(kinds) + ".");
  const Owner owner = owner_of_most(by_parameter, kStateShareOfOwner);
  if (owner.path.find('.') != std::string::npos) {
    finding.evidence.push_back(bytes_text(owner.bytes) + " of it belong to " +
                               counted(owner.tensors, "parameter") + " of " + owner.path + ".");
  }
  const std::uint64_t single = bytes_of(those_of(
      explanation.parts, [](const Allocation& each) { return each.dtype() == "float32"; }));
  // The dtype is unknown in a snapshot. Where the peak is without any state limits the saving.
  if (single > 0 || peak.is_inferred()) {
    finding.steps.push_back(step_up_to("Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao).",
                                       std::min(single / 4 * 3, peak.saving_without(is_state))));
  }
  finding.steps.push_back({"Shard it over your devices (FSDP, ZeRO)."});
  if (single > 0) {
    finding.evidence.push_back(bytes_text(single) + " of it are float32.");
  } else {
    finding.steps.push_back({"Use an optimizer with less state (Adafactor, SGD)."});
  }
  const bool is_history = advise_history(explanation, finding);
  const bool is_stale = !is_history && advise_stale(peak, explanation, finding);
  // A model that grows, with its optimizer, explains why.
  const std::set<std::uint32_t> grown = claimed(out, Kind::kGrowth);
  const Parts others = those_of(
      explanation.parts, [&](const Allocation& each) { return !grown.contains(each.lifetime); });
  if (is_stale && bytes_of(others) * 2 > explanation.bytes) explanation.kind = Kind::kMistake;
  if (!is_history && !is_stale) advise_embeddings(peak, by_parameter, finding);
  out.push_back(std::move(explanation));
}

bool is_scratch(const Peak& peak, const Allocation& allocation) {
  return peak.is_of_optimizer(allocation) &&
         allocation.is(model::kOptimizerScratch, model::kOtherCategory,
                       model::kTemporaryCategory) &&
         !allocation.has(evidence::StackFlag::kLbfgs);  // it has no foreach implementation
}

Steps steps_for_foreach(const Peak& peak) {
  std::vector<std::uint32_t> scratch;
  std::uint64_t largest = 0;
  peak.for_each([&](const Allocation& each) {
    if (!is_scratch(peak, each)) return;
    scratch.push_back(each.lifetime);
    largest = std::max(largest, each.size_bytes);
  });
  // Updating one parameter at a time needs only a few tensors of its size.
  const std::uint64_t all = peak.replay().never_made(scratch);
  return {{"Pass foreach=False to the optimizer, which then updates one parameter after the other.",
           minus_or_zero(all, kScratchOfOne * largest)},
          {"Pass fused=True to the optimizer if there is a fused kernel.", all}};
}

// For an optimizer that updates one parameter after the other, or is the program's own.
Steps steps_for_update(const Peak& peak, const Explanation& explanation) {
  const std::string line = line_of_most(explanation.parts).first;
  if (peak.is_of_torch_optimizer(explanation.parts.front()) || !is_named(line)) {
    return {{"Pass fused=True to the optimizer if there is a fused kernel."},
            {"Split the largest parameter."}};
  }
  return {{"Compute the update at " + line +
           " in place (mul_, add_, out=), one parameter at a time, and delete each temporary (del) "
           "after its last use."}};
}

void explain_scratch(const Peak& peak, Explanations& out) {
  Explanation explanation(
      peak.live_if([&](const Allocation& each) { return is_scratch(peak, each); }));
  const Parts& parts = explanation.parts;
  if (parts.size() < kFewestScratch) return;
  if (!peak.is_much(explanation.bytes, kLeastShareOfMistake, kLeastHabitBytes)) return;
  explanation.kind = Kind::kMistake;
  const bool is_foreach = std::ranges::any_of(parts, [](const Allocation& each) {
    return each.op().has(evidence::Operator::kForeach) || each.has(evidence::StackFlag::kForeach);
  });
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_scratch";
  finding.title =
      "What the optimizer allocates within its step is " + amount_text(peak, explanation.bytes);
  finding.evidence.push_back(
      counted(parts.size(), "temporary tensor") + " are live simultaneously: " +
      (is_foreach ? "the foreach implementation updates all parameters together."
                  : lines_text(parts) + "."));
  finding.steps = is_foreach ? steps_for_foreach(peak) : steps_for_update(peak, explanation);
  out.push_back(std::move(explanation));
}

}  // namespace

void explain_optimizer(Peak& peak, Explanations& out) {
  explain_state(peak, out);
  explain_scratch(peak, out);
}

}  // namespace plimsoll::findings
