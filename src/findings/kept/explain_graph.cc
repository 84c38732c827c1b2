// graph_without_backward: forward passes built an autograd graph, and no backward ever used it. A
// snapshot records neither layers nor the beginning of a backward: there, most of a forward's
// allocations are live at the peak, and are freed without any allocation by autograd.
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

constexpr double kSnapshotGraphShareOfPeak = 0.25;
// With a graph, autograd keeps most of a forward's allocations. Without one, only tensors in local
// variables are live.
constexpr double kSnapshotGraphKeptShare = 0.45;
// A forward may run a line for each of a few layers.
constexpr std::size_t kFewestForwards = 5;
// Local variables may hold fewer than this.
constexpr std::size_t kSnapshotGraphFewestKept = 16;

Pass pass_of(const Allocation& allocation) {
  return allocation.known->evidence.pass_of(allocation.lifetime);
}

bool is_in_vain(const Allocation& allocation) {
  return allocation.known->evidence.is_used_in_vain(allocation.lifetime);
}

// Whether autograd keeps it for a pass that no backward uses, or only in vain.
bool is_of_unused_graph(const Allocation& allocation) {
  const evidence::Evidence& evidence = allocation.known->evidence;
  return is_forward_activation(allocation) && evidence.is_of_graph(allocation.lifetime) &&
         (is_in_vain(allocation) || !evidence.may_be_used_by_backward(allocation.lifetime));
}

// What is live at the peak of the passes of a recording that no backward uses.
struct Graphs {
  std::map<Pass, Parts> parts;
  std::map<std::string_view, std::uint64_t> bytes;  // by root
  std::set<std::uint32_t> saved;  // lifetimes of tensors of the program that the graphs saved
  Explanation explanation;
  std::string_view root() const { return largest(bytes).first; }
};

// Whether a pass that is called where this one is, and that a backward uses, begins while the parts
// are live.
bool is_retried(const Peak& peak, const Pass& pass, const Parts& parts) {
  const Allocation& last = parts.back();
  std::set<std::uint32_t> compared;  // stacks
  bool is_found = false;
  peak.for_each([&](const Allocation& each) {
    const bool is_meanwhile = !is_found && each.born > last.born && each.born < last.died;
    if (!is_meanwhile || !is_forward_activation(each)) return;
    const Pass later = pass_of(each);
    const bool is_used = later.root == pass.root && later.number > pass.number &&
                         peak.evidence().is_used_by_backward(each.lifetime);
    if (!is_used || !compared.insert(each.stack.value).second) return;
    is_found = each.caller() == last.caller();
  });
  return is_found;
}

// Autograd frees what it has saved together with the activations.
void add_saved(const Peak& peak, Graphs& graphs) {
  constexpr std::uint32_t kMostBetween = 2;  // events: a free on CUDA is two
  std::set<std::uint32_t> deaths;
  peak.for_each([&](const Allocation& each) {
    if (is_of_unused_graph(each)) deaths.insert(each.died);
  });
  for (const Allocation& each : peak.live()) {
    const bool is_of_program = each.is(model::kOtherCategory, model::kInput);
    if (!is_of_program || each.born == model::kNone || each.died == model::kNone) continue;
    const auto next = deaths.lower_bound(each.died - std::min(each.died, kMostBetween));
    if (next == deaths.end() || *next > each.died + kMostBetween) continue;
    graphs.saved.insert(each.lifetime);
    graphs.explanation.add(each);
  }
}

Graphs unused_graphs(const Peak& peak) {
  Graphs graphs;
  for (const Allocation& each : peak.live()) {
    if (is_of_unused_graph(each)) graphs.parts[pass_of(each)].push_back(each);
  }
  std::map<Pass, std::uint32_t> last;  // births
  peak.for_each([&](const Allocation& each) {
    if (is_of_unused_graph(each)) last[pass_of(each)] = each.born;
  });
  std::erase_if(graphs.parts, [&](const auto& each) {
    const auto& [pass, parts] = each;
    // The result, whose graph retains nothing else.
    if (parts.size() == 1 && parts.front().get().born == last[pass]) return true;
    // Memory ran out before the backward.
    const bool has_failed = peak.evidence().meets_oom(parts.back().get().lifetime);
    return has_failed && !is_retried(peak, pass, parts);
  });
  for (const auto& [pass, parts] : graphs.parts) {
    for (const Allocation& each : parts) graphs.explanation.add(each);
    graphs.bytes[pass.root] += bytes_of(parts);
  }
  if (!graphs.parts.empty()) add_saved(peak, graphs);
  return graphs;
}

// The line that adds a number of one forward to those of the others: it makes one number, which
// lives as long as what other lines have made several times. Empty if there is none.
std::string line_of_sum(const Explanation& graphs) {
  constexpr std::uint64_t kLargestNumber = 512;  // a block of the CUDA allocator
  std::map<std::uint32_t, std::size_t> made;     // by line
  for (const Allocation& each : graphs.parts) ++made[each.line().value];
  const bool is_repeated =
      std::ranges::any_of(made, [](const auto& line) { return line.second >= kFewestForwards; });
  for (const Allocation& each : graphs.parts) {
    const bool is_number = each.size_bytes <= kLargestNumber &&
                           each.op().has(evidence::Operator::kElementwise) &&
                           each.site().layer == model::StringId{};
    if (is_repeated && is_number && made[each.line().value] == 1) return each.label();
  }
  return {};
}

// How much the peak falls if the passes of these roots that no backward uses build no graph: each
// of their tensors but the last, the result, is freed at its last use.
std::uint64_t saving_without_graph(const Peak& peak, const Graphs& graphs) {
  const auto freed = freed_without_graph(peak, [&](const Allocation& each) {
    return graphs.bytes.contains(pass_of(each).root) && is_of_unused_graph(each);
  });
  const model::LastUses& uses = peak.uses();
  return peak.saving([&](const Allocation& each) {
    if (graphs.saved.contains(each.lifetime)) return uses.freeable(each.lifetime);
    const auto found = freed.find(each.lifetime);
    if (found == freed.end()) return each.died;
    // The operator that an operator calls last uses it unseen.
    const bool is_known = !found->second.is_inside_operator && !is_in_vain(each) &&
                          uses.used_again(each.lifetime, each.born) != model::UsedAgain::kUnknown;
    return std::min(each.died, is_known ? uses.freeable(each.lifetime) : found->second.event);
  });
}

// The same if each of these passes is freed before the next one of its root.
std::uint64_t saving_before_next(const Peak& peak, const Graphs& graphs) {
  return peak.saving([&](const Allocation& each) {
    const Pass pass = pass_of(each);
    const bool is_theirs = graphs.bytes.contains(pass.root) && is_of_unused_graph(each);
    return is_theirs ? std::min(each.died, peak.evidence().next_pass(pass)) : each.died;
  });
}

void describe(const Peak& peak, Graphs& graphs) {
  const Parts& parts = graphs.explanation.parts;
  const Allocation& made = *std::ranges::min_element(parts, {}, [&](const Allocation& each) {
    const bool is_theirs = pass_of(each).root == graphs.root();
    return is_theirs && !graphs.saved.contains(each.lifetime) ? each.born : model::kNone;
  });
  const std::string who = (graphs.root().empty() ? made.label() : std::string(graphs.root())) +
                          (graphs.bytes.size() > 1 ? " and others" : "");
  const bool is_one = graphs.parts.size() == 1;
  const bool outlives =
      std::ranges::any_of(parts, [&](const Allocation& each) { return peak.meets_backward(each); });
  report::Finding& finding = graphs.explanation.finding;
  finding.id = "graph_without_backward";
  finding.title = (is_one ? "A forward of " + who + " builds a graph"
                          : "Forwards of " + who + " build graphs") +
                  " that no backward uses: " + bytes_text(graphs.explanation.bytes) + " of " +
                  bytes_text(peak.bytes()) + " at the peak on " + peak.device().name;
  finding.evidence = {counted(parts.size() - graphs.saved.size(), "activation") +
                          " are live at the peak, of " + counted(graphs.parts.size(), "forward") +
                          ". " +
                          (outlives ? "The backwards that run meanwhile use none of them."
                                    : "No backward begins before they are freed."),
                      "The first of them is made at " + made.label() + callers_text(made) + "."};
  if (!graphs.saved.empty()) {
    finding.evidence.push_back("For their backward, autograd keeps " +
                               counted(graphs.saved.size(), "input") + " as well.");
  }
  const std::string caller = peak.facts().lines.caller(made.stack);
  if (!caller.empty()) finding.evidence.push_back("The forward is called at " + caller + ".");
  finding.steps = {
      {"Run what no backward uses (validation, inference, a teacher) under torch.no_grad() or "
       "torch.inference_mode(): no activation is kept for backward.",
       saving_without_graph(peak, graphs)}};
  if (const std::string sum = line_of_sum(graphs.explanation); !sum.empty()) {
    finding.steps.push_back({"If " + sum +
                             " adds up results, add x.item() or x.detach() there instead of the "
                             "tensor x: the sum keeps the graphs of all of them."});
  } else if (!is_one && outlives) {
    finding.steps.push_back({"If the program stores the results, store their .detach()."});
  }
}

void describe_attempt(const Peak& peak, Graphs& graphs) {
  const std::uint64_t bytes = graphs.explanation.bytes;
  report::Finding& finding = graphs.explanation.finding;
  finding.evidence.push_back("Other forwards that are called there are used by a backward.");
  finding.title = "The activations of an attempt that failed, or whose result was dropped, are " +
                  amount_text(peak, bytes) + " while the next forward of " +
                  std::string(graphs.root()) + " runs";
  const std::uint64_t saving = saving_before_next(peak, graphs);
  finding.steps = {
      {"If the program retries after an exception, leave the except block first: the traceback of "
       "the exception retains the frames of the attempt, with their tensors.",
       saving},
      {"Delete (del) the result of the attempt before the next forward.", saving},
      {"If it is an evaluation, run it under torch.no_grad()."}};
}

void describe_in_vain(const Peak& peak, Graphs& graphs) {
  report::Finding& finding = graphs.explanation.finding;
  const std::string root(graphs.root());
  finding.title = "A graph of " + root + " is " + amount_text(peak, graphs.explanation.bytes) +
                  ", for gradients that nothing reads";
  finding.evidence.front() = "Its backward computes the gradients of " + root +
                             ", and the program clears them before an optimizer reads them.";
  finding.steps.front().text =
      "Run " + root + " under torch.no_grad() where only other modules are trained.";
}

}  // namespace

bool is_forward_activation(const Allocation& each) {
  const model::LifetimeFlags flags = each.known->device.lifetimes.flags[each.lifetime];
  return each.is(model::kActivation) && each.phase() == model::Phase::kForward &&
         !has(flags, model::LifetimeFlags::kAdopted);
}

std::unordered_map<std::uint32_t, FreedWithoutGraph> freed_without_graph(
    const Peak& peak, const std::function<bool(const Allocation&)>& is_chosen) {
  std::map<Pass, std::vector<Allocation>> passes;
  peak.for_each([&](const Allocation& each) {
    if (is_chosen(each)) passes[pass_of(each)].push_back(each);
  });
  std::unordered_map<std::uint32_t, FreedWithoutGraph> freed;
  for (const auto& [pass, made] : passes) {
    for (std::size_t i = 0; i + 1 < made.size(); ++i) {
      const bool is_before_result = i + 2 == made.size();
      const model::Site &one = made[i].site(), &next = made[i + 1].site();
      freed[made[i].lifetime] = {is_before_result ? made[i + 1].born + 1 : made[i + 2].born,
                                 one.op == next.op && one.layer == next.layer};
    }
  }
  return freed;
}

void explain_graph(Peak& peak, Explanations& out) {
  Graphs graphs = unused_graphs(peak);
  Explanation& explanation = graphs.explanation;
  if (!peak.is_much(explanation.bytes, kLeastShareOfMistake)) return;
  describe(peak, graphs);
  const auto& [pass, parts] = *graphs.parts.begin();
  if (std::ranges::all_of(explanation.parts, [](const Allocation& each) {
        return is_in_vain(each) || !is_forward_activation(each);
      })) {
    describe_in_vain(peak, graphs);
  } else if (graphs.parts.size() == 1 && is_retried(peak, pass, parts)) {
    describe_attempt(peak, graphs);
  }
  const std::uint64_t saving = explanation.finding.saving_bytes();
  if (!is_at_least(saving, kLeastShareOfMistake, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  out.push_back(std::move(explanation));
}

void explain_graph_of_snapshot(Peak& peak, Explanations& out) {
  std::vector<std::uint32_t> backward;  // births of what it makes
  // Of the forward at the peak: no activation was live before it.
  std::size_t made = 0;
  std::uint32_t last_death = 0;
  peak.for_each([&](const Allocation& each) {
    if (each.is(model::kActivationGradient, model::kGradient)) backward.push_back(each.born);
    if (!each.is(model::kActivation) || each.born > peak.event()) return;
    made = last_death <= each.born ? 1 : made + 1;
    last_death = std::max(last_death, each.died);
  });
  // Every optimizer step follows a backward. If there is a step but no backward, the stacks do not
  // show backwards.
  const bool has_optimizer = peak.evidence().stacks().has_any(evidence::StackFlag::kOptimizer);
  if (backward.empty() && has_optimizer) return;
  Explanation explanation(
      peak.live_if([](const Allocation& each) { return each.is(model::kActivation); }));
  const Parts& parts = explanation.parts;
  const bool may_be_used = std::ranges::any_of(parts, [&](const Allocation& each) {
    // Memory live at the end of the history may still get its backward later. A compiled backward
    // without native frames looks like a forward.
    const auto next = std::ranges::upper_bound(backward, each.born);
    return each.died == model::kNone || (next != backward.end() && *next < each.died) ||
           (backward.empty() && each.has(evidence::StackFlag::kCompiled));
  });
  if (may_be_used || parts.size() < kSnapshotGraphFewestKept) return;
  if (!is_at_least(parts.size(), kSnapshotGraphKeptShare, made)) return;
  if (!peak.is_much(explanation.bytes, kSnapshotGraphShareOfPeak)) return;
  explanation.kind = Kind::kMistake;
  explanation.finding = {
      "graph_without_backward",
      report::FindingSeverity::kInfo,
      "A forward keeps what only a backward uses, and none follows: " +
          bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) + " at the peak on " +
          peak.device().name,
      {counted(parts.size(), "activation") + " of " + counted(made, "activation") +
       " created by the forward are live at the peak, and are freed without any allocation by "
       "autograd."},
      {{"Run validation, inference and measurements of forward under torch.no_grad() or "
        "torch.inference_mode(): no activation is kept for backward."}}};
  const std::string path = path_text(parts);
  if (!path.empty()) {
    explanation.finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
