// gradients_kept: the gradients of one step are still allocated while the next one's forward runs.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/backwards.h"
#include "findings/peak/peak.h"
#include "findings/peak/unowned.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/steps.h"

namespace plimsoll::findings {
namespace {

constexpr double kKeptGradientsShareOfPeak = 0.05;
// With fewer backwards, accumulating gradients over two batches looks the same.
constexpr std::size_t kKeptGradientsFewestBackwards = 4;

// The smallest number of gradient bytes live at the beginning of any backward but the first. It is
// 0 with gradient accumulation, because each round begins without gradients.
std::uint64_t least_kept(const Peak& peak, const std::set<std::uint32_t>& unowned) {
  const model::Trace& trace = peak.trace();
  const auto& begins = peak.backward_begins();
  if (begins.size() < kKeptGradientsFewestBackwards) return 0;
  const auto bytes = analysis::held_at(begins, trace, peak.device().trace, [&](std::size_t row) {
    return trace.strings[trace.category(peak.device().trace, row)] == model::kGradient &&
           !unowned.contains(static_cast<std::uint32_t>(row));
  });
  return *std::min_element(bytes.begin() + 1, bytes.end());
}

// The end of the last optimizer step before the peak, if steps are marked.
std::uint32_t last_step(const Peak& peak) {
  std::uint32_t last = 0;
  for (const model::StepEnd& end : model::step_ends(peak.trace(), peak.device().trace)) {
    if (end.event <= peak.event()) last = end.event;
  }
  return last;
}

}  // namespace

void explain_gradients(Peak& peak, Explanations& out) {
  if (peak.point().phase == "optimizer") return;
  const auto& begins = peak.backward_begins();
  std::set<std::uint32_t> unowned;  // lifetimes; explain_unowned reports them
  for (const std::uint32_t part : unowned_gradients(peak).parts) {
    unowned.insert(peak.live()[part].lifetime);
  }
  const std::uint64_t kept = least_kept(peak, unowned);
  const auto next = std::ranges::upper_bound(begins, peak.event());
  const bool is_in_backward = peak.point().phase == "backward" && next != begins.begin();
  // The optimizer has already used these gradients: no backward adds to them intentionally.
  const std::uint32_t used = is_in_backward ? 0 : last_step(peak);
  std::uint32_t before = kept >= kLeastHabitBytes ? peak.event() : used;
  if (is_in_backward) before = kept >= kLeastHabitBytes ? *std::prev(next) : 0;
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kGradient) continue;
    if (unowned.contains(allocation.lifetime)) continue;
    if (allocation.born < before) explanation.add(peak, part);
  }
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastHabitBytes || !is_at_least(bytes, kKeptGradientsShareOfPeak, peak.bytes()))
    return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "gradients_kept";
  finding.title = "Gradients of the previous step stay allocated while forward runs on " +
                  peak.device().name + ": " + bytes_text(bytes) + " of the peak";
  finding.evidence.push_back(
      kept >= kLeastHabitBytes
          ? "All " + counted(begins.size(), "backward") + " except the first began with at least " +
                bytes_text(kept) + " of gradients."
          : "They are live at the peak, in forward, after the optimizer step that used them.");
  const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
    if (peak.category(allocation) != model::kGradient) return allocation.died;
    if (unowned.contains(allocation.lifetime)) return allocation.died;
    return peak.death_after_step(allocation);
  });
  // Gradients that a round of several backwards accumulates are needed at the peak.
  if (peak.has_steps() && saving == 0) return;
  // Without marked steps it is unknown how long the gradients are needed.
  finding.steps = {
      {.text = "Call optimizer.zero_grad(set_to_none=True), which is the default, right after "
               "optimizer.step() and not after the forward, unless you accumulate gradients over "
               "all these batches.",
       .saving_bytes = peak.has_steps() ? saving : bytes,
       .is_upper_bound = !peak.has_steps()}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
