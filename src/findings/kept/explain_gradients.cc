// gradients_kept: gradients that no optimizer clears, because the program leaves requires_grad on
// and passes only the other parameters to it; and gradients that outlive their optimizer step.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/kept/graph.h"
#include "findings/peak/owners.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kUnownedFewestBackwards = 4;
// A gradient must survive this share of the backwards in which other gradients are allocated.
constexpr double kShareOfBackwards = 0.5;
constexpr double kUnownedShareOfOwner = 0.9;

std::size_t backwards_in(const Peak& peak, std::uint32_t from, std::uint32_t to) {
  const auto& begins = peak.backward_begins();
  return static_cast<std::size_t>(std::ranges::lower_bound(begins, to) -
                                  std::ranges::upper_bound(begins, from));
}

// The allocations of a parameter's gradient in the recording.
struct Gradient {
  std::size_t made = 0;
  bool has_state = false;  // an optimizer has state for its parameter
};

// "Net.head" for "Net.head.weight", the name of a parameter or of its state.
std::string_view module_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

bool is_inside(std::string_view layer, std::string_view module) {
  return layer.starts_with(module) &&
         (layer.size() == module.size() || layer[module.size()] == '.');
}

std::map<std::string_view, Gradient> gradients_of(const Peak& peak) {
  std::map<std::string_view, Gradient> gradients;
  std::set<std::string_view> states;
  peak.for_each([&](const Allocation& each) {
    const std::string_view name = each.name();
    if (each.is(model::kGradient) && !name.empty()) ++gradients[name].made;
    if (each.is(model::kOptimizerState)) states.insert(module_of(name));
  });
  for (auto& [name, gradient] : gradients) gradient.has_state = states.contains(name);
  return gradients;
}

struct Unowned {
  Explanation explanation;
  std::size_t cleared = 0;                     // other gradients, which are freed and made again
  std::size_t fewest_backwards = 0;            // that any of `parts` survives
  std::set<std::string_view> trained_modules;  // whose gradients are cleared
};

// What a module keeps for backward, and would not keep if it were frozen.
struct KeptByModule {
  Parts parts;                                             // activations, and their gradients
  std::unordered_map<std::uint32_t, std::uint32_t> freed;  // when it would be freed; by lifetime
};

// Nothing if a trained module runs before the module in some forward: then its inputs need
// gradients, so it keeps activations although it is frozen.
KeptByModule kept_by_module(const Peak& peak, std::string_view module,
                            const std::set<std::string_view>& trained_modules) {
  const auto layer_of = [&](const Allocation& each) {
    return std::string_view(peak.trace().strings[each.site().layer]);
  };
  const auto is_kept = [&](const Allocation& each) {
    return is_forward_activation(each) && is_inside(layer_of(each), module) &&
           peak.evidence().is_freed_by_backward(each.lifetime);
  };
  const auto is_of_backward = [&](const Allocation& each) {
    return each.is(model::kActivationGradient) && is_inside(layer_of(each), module);
  };
  bool runs_first = true, is_after_trained = false;
  std::size_t interval = 0;
  KeptByModule kept;
  peak.for_each([&](const Allocation& each) {
    if (is_of_backward(each)) kept.freed.emplace(each.lifetime, each.born);
    if (!is_forward_activation(each)) return;
    const bool is_new = std::exchange(interval, peak.spans().round(each.born)) != interval;
    if (is_new) is_after_trained = false;
    if (is_inside(layer_of(each), module)) runs_first &= !is_after_trained;
    is_after_trained |= trained_modules.contains(layer_of(each));
  });
  if (!runs_first) return {};
  for (const auto& [lifetime, freed] : freed_without_graph(peak, is_kept)) {
    kept.freed.emplace(lifetime, freed.event);
  }
  kept.parts =
      peak.live_if([&](const Allocation& each) { return is_kept(each) || is_of_backward(each); });
  return kept;
}

Unowned unowned_gradients(const Peak& peak) {
  const std::size_t backwards = peak.backward_begins().size();
  if (backwards < kUnownedFewestBackwards) return {};
  const auto gradients = gradients_of(peak);
  Unowned unowned;
  unowned.fewest_backwards = backwards;
  for (const auto& [name, gradient] : gradients) {
    if (!is_at_least(gradient.made, kShareOfBackwards, backwards)) continue;
    ++unowned.cleared;
    unowned.trained_modules.insert(module_of(name));
  }
  if (unowned.cleared == 0) return {};
  for (const Allocation& each : peak.live()) {
    if (!each.is(model::kGradient)) continue;
    const auto found = gradients.find(each.name());
    if (found == gradients.end() || found->second.made > 1 || found->second.has_state) continue;
    const std::size_t lived = backwards_in(peak, each.born, each.died);
    if (lived < kUnownedFewestBackwards - 1) continue;
    if (!is_at_least(lived + 1, kShareOfBackwards, backwards)) continue;
    unowned.explanation.add(each);
    unowned.fewest_backwards = std::min(unowned.fewest_backwards, lived);
  }
  return unowned;
}

}  // namespace

void explain_unowned(Peak& peak, Explanations& out) {
  Unowned unowned = unowned_gradients(peak);
  Explanation& explanation = unowned.explanation;
  const std::uint64_t of_gradients = explanation.bytes;
  if (!peak.is_much(of_gradients, kLeastShareOfHabit)) return;
  explanation.kind = Kind::kMistake;
  std::map<std::string_view, std::uint64_t> bytes;
  for (const Allocation& each : explanation.parts) bytes[each.name()] += each.size_bytes;
  const Owner owner = owner_of_most(bytes, kUnownedShareOfOwner);
  const std::string what = owner.path.empty() ? "these parameters" : owner.path;
  report::Finding& finding = explanation.finding;
  finding.id = "gradients_kept";
  finding.title = "Gradients that no optimizer clears are " + amount_text(peak, of_gradients);
  finding.evidence = {
      bytes_text(owner.bytes) + " of them belong to " + counted(owner.tensors, "parameter") +
          (owner.path.empty() ? "" : " of " + owner.path) + ".",
      "Each is made once and survives at least " +
          counted(unowned.fewest_backwards, "later backward") + ", while the gradients of " +
          counted(unowned.cleared, "other parameter") +
          " are freed and made again. No optimizer has state for them."};
  KeptByModule kept;
  if (!owner.path.empty()) kept = kept_by_module(peak, owner.path, unowned.trained_modules);
  for (const Allocation& each : explanation.parts) kept.freed.emplace(each.lifetime, each.born);
  for (const Allocation& each : kept.parts) explanation.add(each);
  if (!kept.parts.empty()) {
    finding.evidence.push_back("Because of them, " + owner.path + " also keeps " +
                               bytes_text(explanation.bytes - of_gradients) +
                               " for backward. No trained module runs before it.");
  }
  const std::uint64_t saving = peak.saving([&](const Allocation& each) {
    const auto found = kept.freed.find(each.lifetime);
    return found == kept.freed.end() ? each.died : std::min(found->second, each.died);
  });
  finding.steps = {{"If " + what +
                        " should not be trained, call requires_grad_(False): autograd then "
                        "computes no gradients there.",
                    saving},
                   {"If " + what +
                    " should be trained, pass the parameters to the optimizer, whose zero_grad() "
                    "clears their gradients."}};
  out.push_back(std::move(explanation));
}

void explain_gradients(Peak& peak, Explanations& out) {
  if (!peak.has_steps() || peak.point().phase == "optimizer") return;
  const std::set<std::uint32_t> of_others = claimed(out);
  const auto end = [&](const Allocation& each) {
    const bool is_kept = each.is(model::kGradient) && !of_others.contains(each.lifetime);
    return is_kept ? peak.death_after_step(each) : each.died;
  };
  Explanation explanation(
      peak.live_if([&](const Allocation& each) { return end(each) <= peak.event(); }));
  if (!peak.is_much(explanation.bytes, kLeastShareOfHabit, kLeastHabitBytes)) return;
  const std::uint64_t saving = peak.saving(end);
  if (saving == 0) return;
  explanation.kind = Kind::kMistake;
  explanation.finding = {
      "gradients_kept",
      report::FindingSeverity::kInfo,
      "Gradients of the previous step stay allocated while the next one runs on " +
          peak.device().name + ": " + bytes_text(explanation.bytes) + " of the peak",
      {"They are live at the peak, after the step that used them."},
      {{"Call optimizer.zero_grad(set_to_none=True), which is the default, right after "
        "optimizer.step() and not after the forward, unless you accumulate gradients over all "
        "these batches.",
        saving}}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
