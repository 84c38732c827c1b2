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
bool is_of_program(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone || allocation.size_bytes < kSmallTensorBytes) return false;
  if (!peak.has_line(allocation) || peak.phase(allocation) == model::Phase::kOptimizer)
    return false;
  const std::string_view category = peak.category(allocation);
  const bool is_of_own_backward = category == model::kActivationGradient &&
                                  peak.phase(allocation) == model::Phase::kBackward &&
                                  peak.op(allocation).has(evidence::Operator::kOwnNode);
  return is_of_own_backward || category == model::kActivation ||
         category == model::kOtherCategory || category == model::kInput ||
         category == model::kBuffer;
}

// Whether the program decides it, and not autograd. What is live when the recording ends may be for
// a backward that has not begun.
bool is_kept(const Peak& peak, const PeakAllocation& allocation) {
  if (peak.category(allocation) != model::kActivation) return true;
  const evidence::Fate fate = peak.evidence().fate(allocation.lifetime);
  return fate == evidence::Fate::kProgram || fate == evidence::Fate::kCollector ||
         (fate == evidence::Fate::kLive && peak.meets_backward(allocation));
}

// The tensors of one line that have the same purpose.
struct Origin {
  std::uint32_t line = 0;
  bool is_output = false;  // of a forward
  bool is_of_graph = false;
  auto operator<=>(const Origin&) const = default;
};
Origin origin_of(const Peak& peak, const PeakAllocation& allocation) {
  return {peak.line(allocation).value, peak.category(allocation) == model::kActivation,
          peak.evidence().is_of_graph(allocation.lifetime)};
}

using Origins = std::map<Origin, std::vector<PeakAllocation>>;

// What the program allocates at these origins in the whole recording.
Origins all_of(const Peak& peak, const std::map<Origin, Explanation>& origins) {
  Origins all;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (!is_of_program(peak, allocation)) return;
    const Origin origin = origin_of(peak, allocation);
    if (origins.contains(origin)) all[origin].push_back(allocation);
  });
  return all;
}

// Whether it is a buffer of constant length, by what outlives the step that makes it.
bool is_bounded(const Peak& peak, const std::vector<PeakAllocation>& all) {
  std::vector<evidence::Entry> entries;
  for (const PeakAllocation& each : all) {
    if (each.died > peak.death_after_step(each)) entries.push_back({each.born, each.died});
  }
  return evidence::is_bounded_buffer(entries);
}

bool is_gathered(const Peak& peak, const Explanation& at_peak) {
  std::set<std::size_t> steps;
  for (const std::uint32_t part : at_peak.parts) steps.insert(peak.step(peak.live()[part].born));
  steps.erase(peak.step(peak.event()));
  return steps.size() >= kFewestGatheringSteps;
}

// The allocations of a step or, if the line needs more, those until it makes the next tensor.
std::uint64_t allocations_of_turn(const Peak& peak, const Explanation& explanation) {
  const evidence::Spans& spans = peak.evidence().spans();
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  const PeakAllocation& last = peak.live()[explanation.parts.back()];
  const std::uint64_t turn =
      spans.allocations(first.born, last.born) / (explanation.parts.size() - 1);
  return std::max(turn, spans.allocations_per_step().value_or(0));
}

// How operators use it.
struct Use {
  bool is_waiting = false;  // most of it, for longer than a turn
  bool is_idle = false;     // most of it waits or is not used again
};

// Results that are used later do not wait: unlike data, they cannot be made just when they are
// needed.
Use use_of(const Peak& peak, const Explanation& explanation, bool is_output) {
  const std::uint64_t turn = allocations_of_turn(peak, explanation);
  std::uint64_t waiting = 0, idle = 0;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const model::LastUse use = peak.device().trace.lifetimes.use(allocation.lifetime);
    const bool is_waiting = !is_output && use.gap_bound() / 2 > turn;
    if (is_waiting) waiting += allocation.size_bytes;
    if (is_waiting || peak.is_unused(allocation)) idle += allocation.size_bytes;
  }
  return {waiting * 2 >= explanation.bytes, idle * 2 >= explanation.bytes};
}

std::vector<std::uint32_t> rows_of(const std::vector<PeakAllocation>& all) {
  std::vector<std::uint32_t> rows;
  for (const PeakAllocation& each : all) rows.push_back(each.lifetime);
  return rows;
}

std::string step_for(std::string_view category, std::size_t count) {
  if (category == model::kBuffer) {
    return "Share one among the modules, or make it when it is needed.";
  }
  if (category == model::kActivation) {
    return "Of each, keep only what you need (a loss, the index of the best class), or write it to "
           "a file. A smaller batch changes nothing.";
  }
  return "Load or make each when it is needed (a smaller prefetch_factor, a shorter queue, random "
         "numbers from their seed): keep two of them instead of " +
         std::to_string(count) + ".";
}

void describe(const Peak& peak, const std::vector<PeakAllocation>& all, bool is_waiting,
              Explanation& explanation) {
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  const std::string_view category = peak.category(first);
  const std::size_t count = explanation.parts.size();
  report::Finding& finding = explanation.finding;
  finding.id = explanation.kind == Kind::kMistake ? "batches_kept" : "one_line_dominates";
  finding.title = counted(count, "tensor") + " that " + peak.line_label(first) + " made are " +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("They are " + parts_text(peak, explanation.parts) +
                             callers_text(peak, first) + ", live simultaneously.");
  if (category == model::kBuffer) finding.evidence.emplace_back("They are buffers of modules.");
  if (is_waiting && peak.evidence().spans().allocations_per_step()) {
    finding.evidence.emplace_back("For longer than a step, no operator uses most of them.");
  }
  finding.steps = {step_up_to(step_for(category, count), peak.replay().at_most(2, rows_of(all))),
                   {"Keep them in a smaller dtype."}};
}

void describe_gathered(const Peak& peak, const Origins& all, Explanation& explanation) {
  std::set<std::size_t> steps;
  for (const std::uint32_t part : explanation.parts) {
    steps.insert(peak.step(peak.live()[part].born));
  }
  std::set<std::uint32_t> rows;
  for (const auto& [origin, allocations] : all) {
    for (const PeakAllocation& each : allocations) rows.insert(each.lifetime);
  }
  report::Finding& finding = explanation.finding;
  finding.id = "batches_kept";
  finding.title = "Tensors that " + counted(steps.size(), "earlier step") + " made are " +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("They are " + lines_text(peak, explanation.parts) + ".");
  finding.evidence.emplace_back(
      "Their steps do not free them. A later step frees them together, as when an epoch ends.");
  const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
    return rows.contains(allocation.lifetime) ? peak.death_after_step(allocation) : allocation.died;
  });
  finding.steps = {
      {"Do not gather them until the epoch ends: compute the metric at every step and "
       "keep its sums, or write the tensors to a file.",
       saving}};
}

}  // namespace

void explain_kept(Peak& peak, Explanations& out) {
  const std::vector<bool> is_claimed = claimed(peak, out);
  std::map<Origin, Explanation> origins;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (is_claimed[part] || !is_of_program(peak, allocation)) continue;
    if (!is_kept(peak, allocation)) continue;
    origins[origin_of(peak, allocation)].add(peak, part);
  }
  std::erase_if(origins,
                [](const auto& each) { return each.second.parts.size() < kFewestTensors; });
  if (origins.empty()) return;
  const Origins all = all_of(peak, origins);
  Explanation gathered;
  Origins of_gathered;
  for (auto& [origin, explanation] : origins) {
    const std::vector<PeakAllocation>& made = all.at(origin);
    const bool is_queue = is_bounded(peak, made);
    if (!is_queue && is_gathered(peak, explanation)) {
      for (const std::uint32_t part : explanation.parts) {
        const bool is_earlier = peak.step(peak.live()[part].born) < peak.step(peak.event());
        if (is_earlier) gathered.add(peak, part);
      }
      of_gathered.emplace(origin, made);
      continue;
    }
    // A queue of results may be read at any time; one of data can be shorter.
    const bool may_be_mistake = origin.is_output ? !is_queue && !origin.is_of_graph : true;
    const Use use = use_of(peak, explanation, origin.is_output);
    const bool is_mistake = may_be_mistake && use.is_idle;
    // Outputs of a model that operators use again: explain_layer and explain_line name them.
    if (origin.is_output && !is_mistake && peak.trace().has_uses) continue;
    const double least = is_mistake ? kLeastShareOfMistake : kShareOfPlace;
    if (explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, least, peak.bytes())) continue;
    if (is_mistake) explanation.kind = Kind::kMistake;
    describe(peak, made, use.is_waiting, explanation);
    out.push_back(std::move(explanation));
  }
  if (gathered.bytes < kLeastPeakBytes) return;
  if (!is_at_least(gathered.bytes, kLeastShareOfMistake, peak.bytes())) return;
  gathered.kind = Kind::kMistake;
  describe_gathered(peak, of_gathered, gathered);
  out.push_back(std::move(gathered));
}

}  // namespace plimsoll::findings
