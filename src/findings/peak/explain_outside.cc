// peak_outside_training: the peak is in evaluation, checkpoint saving or initialization, and a
// training step needs less.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "analysis/replay.h"
#include "findings/advice/appending.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// The most bytes that are live in a backward or an optimizer step.
std::uint64_t most_in_training(const Peak& peak) {
  const model::Trace& trace = peak.trace();
  const model::DeviceTrace& device = peak.device().trace;
  const auto& begins = peak.backward_begins();
  const auto& ends = peak.backward_ends();
  std::uint64_t live = 0, most = 0;
  for (std::size_t row = 0; row < device.lifetimes.baseline_count; ++row) {
    if (death(device.lifetimes, row, model::default_liveness(device)) == model::kBeforeRecording)
      continue;
    live += trace.lifetime_bytes(device, row);
  }
  std::size_t begun = 0, ended = 0;
  const auto advance = [&](std::uint32_t event) {
    for (; begun < begins.size() && begins[begun] <= event; ++begun) most = std::max(most, live);
    while (ended < ends.size() && ends[ended] <= event) ++ended;
  };
  analysis::replay(
      device, model::default_liveness(device),
      [&](std::uint32_t row, std::uint32_t event) {
        advance(event);
        live += trace.lifetime_bytes(device, row);
        const model::Phase phase = trace.site(device, event).phase;
        const bool is_training =
            begun > ended || phase == model::Phase::kBackward || phase == model::Phase::kOptimizer;
        if (is_training) most = std::max(most, live);
      },
      [&](std::uint32_t row, std::uint32_t event) {
        advance(event);
        live -= trace.lifetime_bytes(device, row);
      });
  return most;
}

// Whether the line that makes the largest tensor makes as much in most of the other rounds.
bool is_of_every_round(const Peak& peak, const PeakAllocation& largest) {
  std::set<std::uint32_t> rounds;
  peak.for_each([&](const PeakAllocation& each) {
    const bool is_like_it =
        peak.line(each) == peak.line(largest) && each.size_bytes >= largest.size_bytes / 2;
    if (is_like_it) rounds.insert(peak.evidence().spans().round(each.born));
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
  if (peak.is_in_training() || peak.backward_begins().size() < 2) return;
  const std::uint64_t training = most_in_training(peak);
  const std::uint64_t excess = peak.bytes() - std::min(peak.bytes(), training);
  if (excess < kLeastPeakBytes || !is_at_least(excess, kLeastShareOfMistake, peak.bytes())) return;
  Explanation explanation;
  const PeakAllocation* largest = nullptr;
  const auto& begins = peak.backward_begins();
  const auto last = std::ranges::upper_bound(begins, peak.event());
  const std::uint32_t since = last == begins.begin() ? 0 : *std::prev(last);
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view category = peak.category(allocation);
    if (allocation.born < since || category == model::kParameter || category == model::kGradient ||
        category == model::kBuffer || category == model::kOptimizerState) {
      continue;
    }
    explanation.add(peak, part);
    const bool is_larger = largest == nullptr || allocation.size_bytes > largest->size_bytes;
    if (is_larger) largest = &allocation;
  }
  if (explanation.bytes == 0 || is_of_every_round(peak, *largest)) return;
  const auto [line, of_line] = line_of_most(peak, explanation.parts);
  report::Finding& finding = explanation.finding;
  finding.id = "peak_outside_training";
  finding.title = "The peak on " + peak.device().name + " is outside training, " +
                  bytes_text(excess) + " above the largest step: " + bytes_text(peak.bytes()) +
                  " " + stage(peak) + ", " + bytes_text(training) + " in training";
  finding.evidence.push_back("Most of what is allocated there comes from " + line + ": " +
                             bytes_text(of_line) + ".");
  finding.evidence.push_back("The largest tensor is created at " + peak.line_label(*largest) +
                             callers_text(peak, *largest) + ".");
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
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
