// batches_kept, when tensors outlive the step that made them although no backward uses them:
// outputs of an evaluation that stay through training, attributes that hooks set at each call.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/findings/backward_use.h"
#include "analysis/findings/peak.h"
#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kEarlierShareOfPeak = 0.15;
constexpr double kShareOfBetter = 0.5;
// A batch that is loaded ahead, or a result that the loop overwrites, lives through two backwards.
constexpr std::size_t kFewestOutlived = 3;
// A line that makes its tensors only once makes data or state.
constexpr std::size_t kFewestRounds = 2;
// A cache that is full makes nothing new in the last third of the recording.
constexpr double kLastThird = 2.0 / 3.0;
// Of the bytes of a line, those with a size that an earlier round has made too. A cache by length
// makes each size once.
constexpr double kShareOfRepeated = 0.25;
constexpr double kShareOfGraphs = 0.1;

// The rounds of a recording: each ends with a backward. A round's training forward begins with the
// first activation that its backward frees.
class Rounds {
 public:
  Rounds(const Peak& peak, const BackwardUse& use)
      : use_(use), forwards_(peak.backward_begins().size() + 1, model::kNone) {
    peak.for_each([&](const PeakAllocation& allocation) {
      const bool is_used =
          is_forward_activation(peak, allocation) && use.is_freed_by_backward(allocation);
      std::uint32_t& forward = forwards_[use.interval(allocation)];
      if (is_used) forward = std::min(forward, allocation.born);
    });
  }
  std::size_t at(std::uint32_t event) const { return use_.interval(event); }
  std::size_t of(const PeakAllocation& allocation) const { return at(allocation.born); }
  // How many backwards begin while it is live.
  std::size_t outlived(const PeakAllocation& allocation) const {
    return at(allocation.died) - of(allocation);
  }
  // The event at which it would be freed with its round: before the training forward if it is older
  // than that (of an evaluation), else with the backward.
  std::uint32_t end_for(const PeakAllocation& allocation) const {
    const std::size_t round = of(allocation);
    const bool is_before = forwards_[round] != model::kNone && allocation.born < forwards_[round];
    return std::min(allocation.died, is_before ? forwards_[round] : use_.end(round));
  }

 private:
  const BackwardUse& use_;
  std::vector<std::uint32_t> forwards_;  // by round
};

bool may_be_left(const Peak& peak, const BackwardUse& use, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone || allocation.size_bytes < kSmallTensorBytes) return false;
  const std::string_view category = peak.category(allocation);
  const bool is_kind = category == model::kActivation || category == model::kInput ||
                       category == model::kOtherCategory;
  return is_kind && peak.has_line(allocation) &&
         peak.phase(allocation) != model::Phase::kOptimizer &&
         !use.is_freed_by_backward(allocation);
}

// All that a line makes in the recording, of the kinds that may be left behind.
struct History {
  std::set<std::size_t> rounds;                       // in which it makes something
  std::map<std::uint64_t, std::size_t> first_rounds;  // by size
  std::set<std::uint32_t> operators;                  // of activations
  bool has_freed = false;  // something that outlived its round, before the last one
  std::uint64_t repeated_bytes = 0;
  std::uint64_t bytes = 0;

  void add(const PeakAllocation& allocation, std::size_t round, bool is_freed) {
    rounds.insert(round);
    bytes += allocation.size_bytes;
    const auto [first, is_new] = first_rounds.try_emplace(allocation.size_bytes, round);
    if (!is_new && first->second != round) repeated_bytes += allocation.size_bytes;
    has_freed |= is_freed;
  }
};

using Histories = std::unordered_map<std::uint32_t, History>;

// Whether the line leaves its tensors behind round after round. `parts` are live at the peak.
bool is_left_behind(const Peak& peak, const Rounds& rounds, const History& history,
                    const std::vector<std::uint32_t>& parts) {
  if (history.rounds.size() < kFewestRounds) return false;
  const auto last = static_cast<double>(*history.rounds.rbegin());
  if (last < kLastThird * static_cast<double>(rounds.at(model::kNone))) return false;
  if (!is_at_least(history.repeated_bytes, kShareOfRepeated, history.bytes)) return false;
  // A graph has the results of several operators.
  if (history.operators.size() > 1) return false;
  std::set<std::size_t> births;
  std::size_t most_outlived = 0;
  for (const std::uint32_t part : parts) {
    births.insert(rounds.of(peak.live()[part]));
    most_outlived = std::max(most_outlived, rounds.outlived(peak.live()[part]));
  }
  // A queue or a bounded cache has the tensors of several rounds, and frees the oldest.
  const bool is_bounded = births.size() > 1 && history.has_freed;
  return !is_bounded && most_outlived >= kFewestOutlived;
}

// Whether backwards with create_graph=True have left their graphs: they retain the forwards too.
bool has_graphs_of_backward(const Peak& peak, const BackwardUse& use) {
  const std::size_t now = use.interval(peak.event());
  std::uint64_t bytes = 0;
  for (const PeakAllocation& allocation : peak.live()) {
    const bool is_of_backward = peak.category(allocation) == model::kActivationGradient;
    if (is_of_backward && use.interval(allocation) < now) bytes += allocation.size_bytes;
  }
  return is_at_least(bytes, kShareOfGraphs, peak.bytes());
}

// Whether an explanation that says why they are live has most of the parts.
bool is_explained_better(const Explanations& others, const Explanation& explanation) {
  return std::ranges::any_of(others, [&](const Explanation& other) {
    const std::string& id = other.finding.id;
    const bool is_cause = id == "model_copies" || id == "batches_kept";
    if (other.kind != Kind::kMistake && !is_cause) return false;
    const std::set<std::uint32_t> parts(other.parts.begin(), other.parts.end());
    const auto shared = std::ranges::count_if(
        explanation.parts, [&](std::uint32_t part) { return parts.contains(part); });
    return is_at_least(static_cast<std::uint64_t>(shared), kShareOfBetter,
                       explanation.parts.size());
  });
}

void describe(const Peak& peak, const Rounds& rounds, std::uint64_t saving,
              Explanation& explanation) {
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  const std::string line = peak.line_label(first);
  std::size_t outlived = std::numeric_limits<std::size_t>::max();
  for (const std::uint32_t part : explanation.parts) {
    outlived = std::min(outlived, rounds.outlived(peak.live()[part]));
  }
  report::Finding& finding = explanation.finding;
  finding.id = "batches_kept";
  finding.title = "Tensors that outlive their step are " + share_text(peak, explanation.bytes) +
                  ": " + bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) +
                  ", made at " + line;
  finding.evidence.push_back("They are " + parts_text(peak, explanation.parts) +
                             callers_text(peak, first) + ".");
  finding.evidence.push_back("Each is live during at least " + counted(outlived, "later backward") +
                             ", and no backward frees it.");
  finding.steps = {{"Free what " + line +
                        " retains (a list, a dict, an attribute of a module) when it has been "
                        "used, before the next step, or keep only the part that is needed later.",
                    saving}};
}

}  // namespace

// Must run after the other explanations.
void explain_earlier(Peak& peak, Explanations& out) {
  if (peak.backward_begins().size() < kFewestOutlived) return;
  const BackwardUse use(peak);
  if (has_graphs_of_backward(peak, use)) return;
  const Rounds rounds(peak, use);
  const std::size_t now = rounds.at(peak.event());
  const std::size_t last = rounds.at(model::kNone);
  const auto is_left = [&](const PeakAllocation& allocation) {
    return rounds.of(allocation) < now || rounds.outlived(allocation) >= kFewestOutlived;
  };
  std::map<std::uint32_t, Explanation> lines;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!may_be_left(peak, use, allocation) || !is_left(allocation)) continue;
    lines[peak.line(allocation).value].add(peak, part);
  }
  std::erase_if(lines, [&](const auto& each) {
    const std::uint64_t bytes = each.second.bytes;
    return bytes < kLeastPeakBytes || !is_at_least(bytes, kEarlierShareOfPeak, peak.bytes());
  });
  if (lines.empty()) return;
  Histories histories;
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::uint32_t line = peak.line(allocation).value;
    if (!lines.contains(line) || !may_be_left(peak, use, allocation)) return;
    const std::size_t freed = rounds.at(allocation.died);
    const bool is_freed = freed < last && rounds.outlived(allocation) > 0;
    histories[line].add(allocation, rounds.of(allocation), is_freed);
    const bool is_activation = peak.category(allocation) == model::kActivation;
    const bool is_left_over = rounds.outlived(allocation) >= kFewestOutlived;
    if (is_activation && is_left_over) {
      histories[line].operators.insert(peak.site(allocation).op.value);
    }
  });
  for (auto& [line, explanation] : lines) {
    if (!is_left_behind(peak, rounds, histories[line], explanation.parts)) continue;
    if (is_explained_better(out, explanation)) continue;
    const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
      const bool is_of_line =
          peak.line(allocation).value == line && may_be_left(peak, use, allocation);
      return is_of_line ? rounds.end_for(allocation) : allocation.died;
    });
    if (!is_at_least(saving, kEarlierShareOfPeak, peak.bytes())) continue;
    explanation.kind = Kind::kMistake;
    describe(peak, rounds, saving, explanation);
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::analysis::findings
