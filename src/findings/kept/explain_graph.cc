// graph_without_backward: forward passes built an autograd graph, and no backward ever used it.
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
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

using evidence::Pass;

Pass pass_of(const Peak& peak, const PeakAllocation& allocation) {
  return peak.evidence().pass_of(allocation.lifetime);
}

// Whether autograd keeps it for a pass that no backward uses.
bool is_of_unused_graph(const Peak& peak, const PeakAllocation& allocation) {
  return is_forward_activation(peak, allocation) &&
         peak.evidence().is_of_graph(allocation.lifetime) &&
         !peak.evidence().may_be_used_by_backward(allocation.lifetime);
}

// What is live at the peak of the passes of a recording that no backward uses.
struct Graphs {
  std::map<Pass, std::vector<std::uint32_t>> parts;  // rows of Peak::live()
  std::map<std::string_view, std::uint64_t> bytes;   // by root
  Explanation explanation;

  std::string_view root() const {  // that has the most
    return std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; })->first;
  }
};

// Whether a pass that is called where this one is, and that a backward uses, begins while the parts
// are live.
bool is_retried(const Peak& peak, const Pass& pass, const std::vector<std::uint32_t>& parts) {
  const PeakAllocation& last = peak.live()[parts.back()];
  std::set<std::uint32_t> compared;  // stacks
  bool is_found = false;
  peak.for_each([&](const PeakAllocation& each) {
    const bool is_meanwhile = !is_found && each.born > last.born && each.born < last.died;
    if (!is_meanwhile || !is_forward_activation(peak, each)) return;
    const Pass later = pass_of(peak, each);
    const bool is_used = later.root == pass.root && later.number > pass.number &&
                         peak.evidence().is_used_by_backward(each.lifetime);
    if (!is_used || !compared.insert(each.stack.value).second) return;
    is_found = caller_of(peak, each) == caller_of(peak, last);
  });
  return is_found;
}

Graphs unused_graphs(const Peak& peak) {
  Graphs graphs;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (is_of_unused_graph(peak, allocation))
      graphs.parts[pass_of(peak, allocation)].push_back(part);
  }
  std::erase_if(graphs.parts, [&](const auto& each) {
    const auto& [pass, parts] = each;
    // Memory ran out before the backward.
    const bool has_failed = peak.evidence().meets_oom(peak.live()[parts.back()].lifetime);
    return has_failed && !is_retried(peak, pass, parts);
  });
  for (const auto& [pass, parts] : graphs.parts) {
    for (const std::uint32_t part : parts) {
      graphs.explanation.add(peak, part);
      graphs.bytes[pass.root] += peak.live()[part].size_bytes;
    }
  }
  return graphs;
}

// How much the peak falls if the passes of these roots that no backward uses build no graph: each
// of their tensors but the last, the result, is freed at its last use.
std::uint64_t saving_without_graph(const Peak& peak, const Graphs& graphs) {
  const auto freed = freed_without_graph(peak, [&](const PeakAllocation& allocation) {
    return graphs.bytes.contains(pass_of(peak, allocation).root) &&
           is_of_unused_graph(peak, allocation);
  });
  const model::LastUses& uses = peak.uses();
  return peak.saving([&](const PeakAllocation& allocation) {
    const auto found = freed.find(allocation.lifetime);
    if (found == freed.end()) return allocation.died;
    // The operator that an operator calls last uses it unseen.
    const bool is_known =
        !found->second.is_inside_operator &&
        uses.used_again(allocation.lifetime, allocation.born) != model::UsedAgain::kUnknown;
    return std::min(allocation.died,
                    is_known ? uses.freeable(allocation.lifetime) : found->second.event);
  });
}

// The same if each of these passes is freed before the next one of its root.
std::uint64_t saving_before_next(const Peak& peak, const Graphs& graphs) {
  return peak.saving([&](const PeakAllocation& allocation) {
    const Pass pass = pass_of(peak, allocation);
    if (!graphs.bytes.contains(pass.root) || !is_of_unused_graph(peak, allocation)) {
      return allocation.died;
    }
    return std::min(allocation.died, peak.evidence().next_pass(pass));
  });
}

void describe(const Peak& peak, Graphs& graphs) {
  Explanation& explanation = graphs.explanation;
  const auto first = std::ranges::min_element(explanation.parts, {}, [&](std::uint32_t part) {
    return pass_of(peak, peak.live()[part]).root == graphs.root() ? part : model::kNone;
  });
  const PeakAllocation& made = peak.live()[*first];
  const std::string who =
      (graphs.root().empty() ? peak.line_label(made) : std::string(graphs.root())) +
      (graphs.bytes.size() > 1 ? " and others" : "");
  const bool is_one = graphs.parts.size() == 1;
  const bool outlives = std::ranges::any_of(explanation.parts, [&](std::uint32_t part) {
    return peak.meets_backward(peak.live()[part]);
  });
  report::Finding& finding = explanation.finding;
  finding.id = "graph_without_backward";
  finding.title = (is_one ? "A forward of " + who + " builds a graph"
                          : "Forwards of " + who + " build graphs") +
                  " that no backward uses: " + bytes_text(explanation.bytes) + " of " +
                  bytes_text(peak.bytes()) + " at the peak on " + peak.device().name;
  finding.evidence.push_back(counted(explanation.parts.size(), "activation") +
                             " are live at the peak, of " +
                             counted(graphs.parts.size(), "forward") + ". " +
                             (outlives ? "The backwards that run meanwhile use none of them."
                                       : "No backward begins before they are freed."));
  finding.evidence.push_back("The first of them is made at " + peak.line_label(made) +
                             callers_text(peak, made) + ".");
  const std::string caller = peak.facts().lines.caller(made.stack);
  if (!caller.empty()) finding.evidence.push_back("The forward is called at " + caller + ".");
  finding.steps = {
      {"Run what no backward uses (validation, inference, a teacher) under torch.no_grad() or "
       "torch.inference_mode(): no activation is kept for backward.",
       saving_without_graph(peak, graphs)}};
  if (!is_one && outlives) {
    finding.steps.push_back({"If the program stores the results, store their .detach()."});
  }
}

void describe_attempt(const Peak& peak, Graphs& graphs) {
  const Explanation& explanation = graphs.explanation;
  report::Finding& finding = graphs.explanation.finding;
  finding.evidence.push_back("Other forwards that are called there are used by a backward.");
  finding.title = "The activations of an attempt that failed, or whose result was dropped, are " +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes()) + " while the next forward of " +
                  std::string(graphs.root()) + " runs";
  const std::uint64_t saving = saving_before_next(peak, graphs);
  finding.steps = {
      {"If the program retries after an exception, leave the except block first: the traceback of "
       "the exception retains the frames of the attempt, with their tensors.",
       saving},
      {"Delete (del) the result of the attempt before the next forward.", saving},
      {"If it is an evaluation, run it under torch.no_grad()."}};
}

}  // namespace

bool is_forward_activation(const Peak& peak, const PeakAllocation& allocation) {
  return peak.category(allocation) == model::kActivation &&
         peak.phase(allocation) == model::Phase::kForward &&
         !has(peak.flags(allocation), model::LifetimeFlags::kAdopted);
}

std::string caller_of(const Peak& peak, const PeakAllocation& allocation) {
  std::string caller = peak.facts().lines.caller(allocation.stack);
  return caller.empty() ? peak.line_label(allocation) : caller;
}

std::unordered_map<std::uint32_t, FreedWithoutGraph> freed_without_graph(
    const Peak& peak, const std::function<bool(const PeakAllocation&)>& is_chosen) {
  std::map<Pass, std::vector<PeakAllocation>> passes;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (is_chosen(allocation)) passes[pass_of(peak, allocation)].push_back(allocation);
  });
  const auto are_of_one_operator = [&](const PeakAllocation& one, const PeakAllocation& other) {
    const model::Site &of_one = peak.site(one), &of_other = peak.site(other);
    return of_one.op == of_other.op && of_one.layer == of_other.layer;
  };
  std::unordered_map<std::uint32_t, FreedWithoutGraph> freed;
  for (const auto& [pass, made] : passes) {
    for (std::size_t i = 0; i + 1 < made.size(); ++i) {
      const bool is_before_result = i + 2 == made.size();
      freed[made[i].lifetime] = {is_before_result ? made[i + 1].born + 1 : made[i + 2].born,
                                 are_of_one_operator(made[i], made[i + 1])};
    }
  }
  return freed;
}

void explain_graph(Peak& peak, Explanations& out) {
  Graphs graphs = unused_graphs(peak);
  Explanation& explanation = graphs.explanation;
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kLeastShareOfMistake, peak.bytes())) return;
  describe(peak, graphs);
  const auto& [pass, parts] = *graphs.parts.begin();
  if (graphs.parts.size() == 1 && is_retried(peak, pass, parts)) describe_attempt(peak, graphs);
  const std::uint64_t saving = explanation.finding.saving_bytes();
  if (!is_at_least(saving, kLeastShareOfMistake, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
