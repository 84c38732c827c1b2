// batches_kept, when steps keep their results until an epoch ends: outputs and targets that are
// collected for a metric and cleared together.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr double kEpochShareOfPeak = 0.25;
// Fewer could be a queue, or an average over a few steps.
constexpr std::size_t kFewestEpochSteps = 8;
// A queue frees one tensor for each that it adds; the end of an epoch frees nearly all.
constexpr double kFreedTogether = 0.8;

bool may_be_gathered(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.size_bytes < kSmallTensorBytes || !peak.has_line(allocation)) return false;
  const std::string_view category = peak.category(allocation);
  const bool is_kind = category == model::kActivation || category == model::kInput ||
                       category == model::kOtherCategory || category == model::kTemporaryCategory;
  return is_kind && peak.phase(allocation) != model::Phase::kOptimizer;
}

// The memory of one line that outlives the step that allocated it, by the step that frees it.
struct Freed {
  std::map<std::size_t, std::size_t> births;  // count, by allocating step
  std::size_t count = 0;

  std::size_t count_before(std::size_t step) const {
    std::size_t count_of_steps = 0;
    for (auto birth = births.begin(); birth != births.end() && birth->first < step; ++birth) {
      count_of_steps += birth->second;
    }
    return count_of_steps;
  }
};
using FreedBySteps = std::map<std::size_t, Freed>;

// Whether a step before the last frees nearly everything that the preceding steps have left.
bool is_cleared(const FreedBySteps& freed, std::size_t last_step) {
  for (auto step = freed.begin(); step != freed.end() && step->first < last_step; ++step) {
    const auto& [births, count] = step->second;
    if (births.size() < kFewestEpochSteps) continue;
    std::size_t left = 0;  // left by those same steps
    for (auto later = std::next(step); later != freed.end(); ++later) {
      left += later->second.count_before(step->first);
    }
    if (is_at_least(count, kFreedTogether, count + left)) return true;
  }
  return false;
}

}  // namespace

void explain_epoch(Peak& peak, Explanations& out) {
  if (!peak.has_steps()) return;
  const std::size_t now = peak.step(peak.event());
  std::map<std::uint32_t, Explanation> lines;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!may_be_gathered(peak, allocation) || peak.step(allocation.born) >= now) continue;
    lines[peak.line(allocation).value].add(peak, part);
  }
  std::erase_if(lines,
                [](const auto& each) { return each.second.parts.size() < kFewestEpochSteps; });
  if (lines.empty()) return;
  std::unordered_map<std::uint32_t, FreedBySteps> freed;
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::uint32_t line = peak.line(allocation).value;
    if (!lines.contains(line) || !may_be_gathered(peak, allocation)) return;
    const std::size_t first = peak.step(allocation.born), last = peak.step(allocation.died);
    if (first == last) return;
    Freed& of_step = freed[line][last];
    ++of_step.births[first];
    ++of_step.count;
  });
  const std::size_t last_step = peak.step(model::kNone);
  std::erase_if(lines, [&](const auto& each) { return !is_cleared(freed[each.first], last_step); });
  Explanation explanation;
  std::set<std::size_t> steps;
  for (const auto& [line, of_line] : lines) {
    for (const std::uint32_t part : of_line.parts) {
      explanation.add(peak, part);
      steps.insert(peak.step(peak.live()[part].born));
    }
  }
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kEpochShareOfPeak, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "batches_kept";
  finding.title = "Tensors that " + counted(steps.size(), "earlier step") + " made are " +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("They are " + lines_text(peak, explanation.parts) + ".");
  // A recording with the runs of Python's garbage collector shows whether the collector or the
  // program freed the tensors.
  const bool may_be_garbage = !peak.trace().has_collections && !peak.trace().program.python.empty();
  finding.evidence.push_back(
      std::string("Their steps do not free them. One later step frees nearly all, as when an epoch "
                  "ends") +
      (may_be_garbage ? " or when Python's garbage collector frees reference cycles." : "."));
  const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
    return lines.contains(peak.line(allocation).value) && may_be_gathered(peak, allocation)
               ? peak.death_after_step(allocation)
               : allocation.died;
  });
  finding.steps = {
      {"Do not gather them until the epoch ends: compute the metric at every step and "
       "keep its sums, or write the tensors to a file.",
       saving}};
  if (may_be_garbage) {
    finding.steps.push_back(
        {"If the program gathers nothing, they are garbage in reference cycles: break the cycles, "
         "or call gc.collect() at the end of each step.",
         saving});
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
