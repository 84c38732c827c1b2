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

// Of gradients that nothing needs: every program has them, so a small share is worth a line.
constexpr double kLeastShareOfHabit = 0.05;
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
  const auto& strings = peak.trace().strings;
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view category = peak.category(allocation);
    const std::string_view name = strings[peak.tensor(allocation).name];
    if (category == model::kGradient && !name.empty()) ++gradients[name].made;
    if (category == model::kOptimizerState) states.insert(module_of(name));
  });
  for (auto& [name, gradient] : gradients) gradient.has_state = states.contains(name);
  return gradients;
}

struct Unowned {
  std::vector<std::uint32_t> parts;            // rows of Peak::live(), ascending
  std::size_t cleared = 0;                     // other gradients, which are freed and made again
  std::size_t fewest_backwards = 0;            // that any of `parts` survives
  std::set<std::string_view> trained_modules;  // whose gradients are cleared
};

// What a module keeps for backward, and would not keep if it were frozen.
struct KeptByModule {
  std::vector<std::uint32_t> parts;                        // activations, and their gradients
  std::unordered_map<std::uint32_t, std::uint32_t> freed;  // when it would be freed; by lifetime
};

// Nothing if a trained module runs before the module in some forward: then its inputs need
// gradients, so it keeps activations although it is frozen.
KeptByModule kept_by_module(const Peak& peak, std::string_view module,
                            const std::set<std::string_view>& trained_modules) {
  const auto layer_of = [&](const PeakAllocation& allocation) {
    return std::string_view(peak.trace().strings[peak.site(allocation).layer]);
  };
  const auto is_kept = [&](const PeakAllocation& allocation) {
    return is_forward_activation(peak, allocation) && is_inside(layer_of(allocation), module) &&
           peak.evidence().is_freed_by_backward(allocation.lifetime);
  };
  const auto is_of_backward = [&](const PeakAllocation& allocation) {
    return peak.category(allocation) == model::kActivationGradient &&
           is_inside(layer_of(allocation), module);
  };
  bool runs_first = true, is_after_trained = false;
  std::size_t interval = 0;
  KeptByModule kept;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (is_of_backward(allocation)) kept.freed.emplace(allocation.lifetime, allocation.born);
    if (!is_forward_activation(peak, allocation)) return;
    if (std::exchange(interval, peak.evidence().spans().round(allocation.born)) != interval)
      is_after_trained = false;
    if (is_inside(layer_of(allocation), module)) runs_first &= !is_after_trained;
    is_after_trained |= trained_modules.contains(layer_of(allocation));
  });
  if (!runs_first) return {};
  for (const auto& [lifetime, freed] : freed_without_graph(peak, is_kept)) {
    kept.freed.emplace(lifetime, freed.event);
  }
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (is_kept(allocation) || is_of_backward(allocation)) kept.parts.push_back(part);
  }
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
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kGradient) continue;
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    const auto found = gradients.find(name);
    if (found == gradients.end() || found->second.made > 1 || found->second.has_state) continue;
    const std::size_t lived = backwards_in(peak, allocation.born, allocation.died);
    if (lived < kUnownedFewestBackwards - 1 ||
        !is_at_least(lived + 1, kShareOfBackwards, backwards)) {
      continue;
    }
    unowned.parts.push_back(part);
    unowned.fewest_backwards = std::min(unowned.fewest_backwards, lived);
  }
  return unowned;
}

}  // namespace

void explain_unowned(Peak& peak, Explanations& out) {
  const Unowned unowned = unowned_gradients(peak);
  Explanation explanation;
  std::map<std::string_view, std::uint64_t> bytes;
  for (const std::uint32_t part : unowned.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    explanation.add(peak, part);
    bytes[peak.trace().strings[peak.tensor(allocation).name]] += allocation.size_bytes;
  }
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kLeastShareOfHabit, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  const Owner owner = owner_of_most(bytes, kUnownedShareOfOwner);
  const std::string what = owner.path.empty() ? "these parameters" : owner.path;
  report::Finding& finding = explanation.finding;
  finding.id = "gradients_kept";
  finding.title = "Gradients that no optimizer clears are " + share_text(peak, explanation.bytes) +
                  ": " + bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back(bytes_text(owner.bytes) + " of them belong to " +
                             counted(owner.tensors, "parameter") +
                             (owner.path.empty() ? "" : " of " + owner.path) + ".");
  finding.evidence.push_back("Each is made once and survives at least " +
                             counted(unowned.fewest_backwards, "later backward") +
                             ", while the gradients of " +
                             counted(unowned.cleared, "other parameter") +
                             " are freed and made again. No optimizer has state for them.");
  std::set<std::uint32_t> rows;
  for (const std::uint32_t part : explanation.parts) rows.insert(peak.live()[part].lifetime);
  KeptByModule kept;
  if (!owner.path.empty()) kept = kept_by_module(peak, owner.path, unowned.trained_modules);
  const std::uint64_t of_gradients = explanation.bytes;
  for (const std::uint32_t part : kept.parts) explanation.add(peak, part);
  if (!kept.parts.empty()) {
    finding.evidence.push_back("Because of them, " + owner.path + " also keeps " +
                               bytes_text(explanation.bytes - of_gradients) +
                               " for backward. No trained module runs before it.");
  }
  const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
    if (rows.contains(allocation.lifetime)) return allocation.born;
    const auto found = kept.freed.find(allocation.lifetime);
    return found == kept.freed.end() ? allocation.died : std::min(found->second, allocation.died);
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
  const std::vector<bool> is_claimed = claimed(peak, out);
  Explanation explanation;
  std::set<std::uint32_t> of_others;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (is_claimed[part]) of_others.insert(allocation.lifetime);
    const bool is_kept = peak.category(allocation) == model::kGradient &&
                         peak.death_after_step(allocation) <= peak.event();
    if (is_kept && !is_claimed[part]) explanation.add(peak, part);
  }
  if (explanation.bytes < kLeastHabitBytes) return;
  if (!is_at_least(explanation.bytes, kLeastShareOfHabit, peak.bytes())) return;
  const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
    const bool is_kept =
        peak.category(allocation) == model::kGradient && !of_others.contains(allocation.lifetime);
    return is_kept ? peak.death_after_step(allocation) : allocation.died;
  });
  if (saving == 0) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "gradients_kept";
  finding.title = "Gradients of the previous step stay allocated while the next one runs on " +
                  peak.device().name + ": " + bytes_text(explanation.bytes) + " of the peak";
  finding.evidence.emplace_back("They are live at the peak, after the step that used them.");
  finding.steps = {
      {"Call optimizer.zero_grad(set_to_none=True), which is the default, right after "
       "optimizer.step() and not after the forward, unless you accumulate gradients over all these "
       "batches.",
       saving}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
