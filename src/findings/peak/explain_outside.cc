// peak_outside_training: the peak is in evaluation, checkpoint saving or initialization, and a
// training step needs less.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "findings/advice/advice.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// The most bytes that are live in a backward or an optimizer step, or when one begins.
std::uint64_t most_in_training(const Peak& peak) {
  const evidence::Spans& spans = peak.spans();
  return peak.replay().most_after([&](std::uint32_t event) {
    const model::Phase phase = peak.trace().site(peak.device().trace, event).phase;
    return phase == model::Phase::kBackward || phase == model::Phase::kOptimizer ||
           spans.backward_at(event + 1) < spans.backwards().size();
  });
}

// Whether the line that makes the largest tensor makes as much in most of the other rounds.
bool is_of_every_round(const Peak& peak, const Allocation& largest) {
  std::set<std::uint32_t> rounds;
  peak.for_each([&](const Allocation& each) {
    const bool is_like_it =
        each.line() == largest.line() && each.size_bytes >= largest.size_bytes / 2;
    if (is_like_it) rounds.insert(peak.spans().round(each.born));
  });
  return rounds.size() * 2 > peak.backward_begins().size();
}

const char* stage(const Peak& peak) {
  const auto& begins = peak.backward_begins();
  if (begins.front() > peak.event()) return "before the first backward";
  if (peak.point().phase == "forward") return "in a forward without backward";
  return begins.back() <= peak.event() ? "after the last backward" : "between training steps";
}

}  // namespace

void explain_outside(Peak& peak, Explanations& out) {
  const auto& begins = peak.backward_begins();
  if (peak.is_in_training() || begins.size() < 2) return;
  const std::uint64_t training = most_in_training(peak);
  const std::uint64_t excess = minus_or_zero(peak.bytes(), training);
  if (!peak.is_much(excess, kLeastShareOfMistake)) return;
  const auto last = std::ranges::upper_bound(begins, peak.event());
  const std::uint32_t since = last == begins.begin() ? 0 : *std::prev(last);
  Explanation explanation(peak.live_if(
      [&](const Allocation& each) { return each.born >= since && !each.is_of_model(); }));
  if (explanation.bytes == 0) return;
  const Allocation& largest = largest_of(explanation.parts);
  if (is_of_every_round(peak, largest)) return;
  explanation.bytes = std::min(explanation.bytes, excess);  // training needs the rest, too
  const auto [line, of_line] = line_of_most(explanation.parts);
  report::Finding& finding = explanation.finding;
  finding.id = "peak_outside_training";
  finding.title = "The peak on " + peak.device().name + " is outside training, " +
                  bytes_text(excess) + " above the largest step: " + bytes_text(peak.bytes()) +
                  " " + stage(peak) + ", " + bytes_text(training) + " in training";
  finding.evidence = {
      "Most of what is allocated there comes from " + line + ": " + bytes_text(of_line) + ".",
      "The largest tensor is created at " + largest.label() + callers_text(largest) + ".",
      "It holds " + parts_text(explanation.parts) + "."};
  if (advise_appended(peak, explanation.parts, finding)) {
    finding.steps.back() =
        step_up_to("At " + line +
                       ", keep only what you need of each batch, such as the number of correct "
                       "answers. A smaller batch changes nothing: the same samples are collected.",
                   excess);
    std::swap(finding.steps.front(), finding.steps.back());
  } else {
    finding.steps = {step_up_to("Process less at a time at " + line +
                                    ": a smaller batch for evaluation, chunks for preparation and "
                                    "saving, and del for what is no longer used.",
                                excess)};
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
