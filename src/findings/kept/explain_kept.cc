// batches_kept: the program keeps several tensors of one line, batches or results. It is a mistake
// if operators leave most of them alone for longer than a step, or if many steps gather them. A set
// that every step uses is a fact, and its id is one_line_dominates.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/evidence/buffers.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// Double buffering is two batches.
constexpr std::size_t kFewestTensors = 4;
// Fewer could be an average over a few steps.
constexpr std::size_t kFewestGatheringSteps = 8;

// Whether the program may decide how long it lives: not the model or an optimizer.
bool is_of_program(const Allocation& each) {
  if (each.born == model::kNone || each.size_bytes < kSmallTensorBytes) return false;
  if (!each.has_line() || each.phase() == model::Phase::kOptimizer) return false;
  const bool is_of_own_backward = each.is(model::kActivationGradient) &&
                                  each.phase() == model::Phase::kBackward &&
                                  each.op().has(evidence::Operator::kOwnNode);
  return is_of_own_backward ||
         each.is(model::kActivation, model::kOtherCategory, model::kInput, model::kBuffer);
}

// Whether the program decides it, and not autograd. What is live when the recording ends may be for
// a backward that has not begun.
bool is_kept(const Peak& peak, const Allocation& each) {
  const evidence::Fate fate = each.fate();
  return !each.is(model::kActivation) || fate == evidence::Fate::kProgram ||
         fate == evidence::Fate::kCollector ||
         (fate == evidence::Fate::kLive && peak.meets_backward(each));
}

// The tensors of one line that have the same purpose.
struct Origin {
  std::uint32_t line = 0;
  bool is_output = false;  // of a forward
  bool is_of_graph = false;
  auto operator<=>(const Origin&) const = default;
};
Origin origin_of(const Allocation& each) {
  return {each.line().value, each.is(model::kActivation),
          each.known->evidence.is_of_graph(each.lifetime)};
}

using Origins = std::map<Origin, std::vector<Allocation>>;

// What the program allocates at these origins in the whole recording.
Origins all_of(const Peak& peak, const std::map<Origin, Explanation>& origins) {
  Origins all;
  peak.for_each([&](const Allocation& each) {
    const Origin origin = is_of_program(each) ? origin_of(each) : Origin{};
    if (origins.contains(origin)) all[origin].push_back(each);
  });
  return all;
}

// Whether it is a buffer of constant length, by what outlives the step that makes it.
bool is_bounded(const Peak& peak, const std::vector<Allocation>& all) {
  std::vector<evidence::Entry> entries;
  for (const Allocation& each : all) {
    if (each.died > peak.death_after_step(each)) entries.push_back({each.born, each.died});
  }
  return evidence::is_bounded_buffer(entries);
}

std::set<std::size_t> steps_of(const Peak& peak, const Parts& parts) {
  std::set<std::size_t> steps;
  for (const Allocation& each : parts) steps.insert(peak.step(each.born));
  return steps;
}

// The allocations of a step or, if the line needs more, those until it makes the next tensor.
std::uint64_t allocations_of_turn(const Peak& peak, const Parts& parts) {
  const evidence::Spans& spans = peak.spans();
  const std::uint64_t turn =
      spans.allocations(parts.front().get().born, parts.back().get().born) / (parts.size() - 1);
  return std::max(turn, spans.allocations_per_step().value_or(0));
}

std::string step_for(const Allocation& first, std::size_t count) {
  if (first.is(model::kBuffer)) {
    return "Share one among the modules, or make it when it is needed.";
  }
  if (first.is(model::kActivation)) {
    return "Of each, keep only what you need (a loss, the index of the best class), or write it to "
           "a file. A smaller batch changes nothing if all samples are collected.";
  }
  return "Load or make each when it is needed (a smaller prefetch_factor, a shorter queue, random "
         "numbers from their seed): keep two of them instead of " +
         std::to_string(count) + ".";
}

// If two of them are live at a time.
std::uint64_t saving_of(const Peak& peak, const std::vector<Allocation>& all) {
  std::vector<std::uint32_t> rows;
  for (const Allocation& each : all) rows.push_back(each.lifetime);
  return peak.replay().at_most(2, rows);
}

void describe(const Peak& peak, std::uint64_t saving, bool is_waiting, Explanation& explanation) {
  const Parts& parts = explanation.parts;
  const Allocation& first = parts.front();
  report::Finding& finding = explanation.finding;
  finding.id = explanation.kind == Kind::kMistake ? "batches_kept" : "one_line_dominates";
  finding.title = counted(parts.size(), "tensor") + " that " + first.label() + " made are " +
                  amount_text(peak, explanation.bytes);
  finding.evidence.push_back("They are " + parts_text(parts) + callers_text(first) +
                             ", live simultaneously.");
  if (first.is(model::kBuffer)) finding.evidence.emplace_back("They are buffers of modules.");
  if (is_waiting && peak.spans().allocations_per_step()) {
    finding.evidence.emplace_back("For longer than a step, no operator uses most of them.");
  }
  finding.steps = {step_up_to(step_for(first, parts.size()), saving),
                   {"Keep them in a smaller dtype."}};
}

void describe_gathered(const Peak& peak, const Origins& all, Explanation& explanation) {
  explanation.finding = {
      "batches_kept",
      report::FindingSeverity::kInfo,
      "Tensors that " + counted(steps_of(peak, explanation.parts).size(), "earlier step") +
          " made are " + amount_text(peak, explanation.bytes),
      {"They are " + lines_text(explanation.parts) + ".",
       "Their steps do not free them. A later step frees them together, as when an epoch ends."},
      {{"Do not gather them until the epoch ends: compute the metric at every step and keep its "
        "sums, or write the tensors to a file.",
        peak.saving([&](const Allocation& each) {
          const bool is_gathered = is_of_program(each) && all.contains(origin_of(each));
          return is_gathered ? peak.death_after_step(each) : each.died;
        })}}};
}

}  // namespace

void explain_kept(Peak& peak, Explanations& out) {
  const std::set<std::uint32_t> of_others = claimed(out);
  std::map<Origin, Explanation> origins;
  for (const Allocation& each : peak.live()) {
    const bool is_open = is_of_program(each) && !of_others.contains(each.lifetime);
    if (is_open && is_kept(peak, each)) origins[origin_of(each)].add(each);
  }
  std::erase_if(origins,
                [](const auto& each) { return each.second.parts.size() < kFewestTensors; });
  if (origins.empty()) return;
  const Origins all = all_of(peak, origins);
  const std::size_t now = peak.step(peak.event());
  Explanation gathered;
  Origins of_gathered;
  for (auto& [origin, explanation] : origins) {
    const std::vector<Allocation>& made = all.at(origin);
    const bool is_queue = is_bounded(peak, made);
    std::set<std::size_t> earlier = steps_of(peak, explanation.parts);
    earlier.erase(now);
    if (!is_queue && earlier.size() >= kFewestGatheringSteps) {
      for (const Allocation& each : explanation.parts) {
        if (peak.step(each.born) < now) gathered.add(each);
      }
      of_gathered.emplace(origin, made);
      continue;
    }
    // Results that are used later do not wait: unlike data, they cannot be made just when they are
    // needed. A queue of results may be read at any time; one of data can be shorter.
    const std::uint64_t turn = allocations_of_turn(peak, explanation.parts);
    const auto waits = [&, is_data = !origin.is_output](const Allocation& each) {
      return is_data && each.use().gap_bound() / 2 > turn;
    };
    const std::uint64_t waiting = bytes_of(those_of(explanation.parts, waits));
    const std::uint64_t idle = bytes_of(those_of(explanation.parts, [&](const Allocation& each) {
      return waits(each) || peak.is_unused(each);
    }));
    const bool may_be_mistake = !origin.is_output || (!is_queue && !origin.is_of_graph);
    const std::uint64_t saving = saving_of(peak, made);
    const bool is_mistake = may_be_mistake && idle * 2 >= explanation.bytes &&
                            is_at_least(saving, kLeastShareOfMistake, peak.bytes());
    // Outputs of a model that operators use again: explain_layer and explain_line name them.
    if (origin.is_output && !is_mistake && peak.trace().has_uses) continue;
    if (!peak.is_much(explanation.bytes, is_mistake ? kLeastShareOfMistake : kShareOfPlace)) {
      continue;
    }
    if (is_mistake) explanation.kind = Kind::kMistake;
    describe(peak, saving, waiting * 2 >= explanation.bytes, explanation);
    out.push_back(std::move(explanation));
  }
  if (!peak.is_much(gathered.bytes, kLeastShareOfMistake)) return;
  gathered.kind = Kind::kMistake;
  describe_gathered(peak, of_gathered, gathered);
  out.push_back(std::move(gathered));
}

}  // namespace plimsoll::findings
