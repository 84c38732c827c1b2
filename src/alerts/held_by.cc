#include "alerts/held_by.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/finding.h"

namespace plimsoll::alerts {

bool is_about_kept_tensors(const MemoryAlert& alert) {
  constexpr std::array<std::string_view, 4> kIds = {"activations_stay", "temporaries_stay",
                                                    "memory_growth", "more_large_tensors"};
  constexpr std::array<std::string_view, 7> kOthers = {
      "parameter", "buffer", "gradient", "optimizer_state", "peak", "workers", "process"};
  return std::ranges::find(kIds, alert.id) != kIds.end() &&
         std::ranges::find(kOthers, alert.subject) == kOthers.end();
}

void name_holder(const HeldBy& by, MemoryAlert& alert) {
  alert.holders = {by.holder};
  alert.title += ", held by " + by.holder.path;
  const std::string proof = proof_text(by.holder);
  alert.evidence.push_back(holder_text(by.holder) + (proof.empty() ? "" : " " + proof));
  if (by.edit.empty()) return;
  FindingStep step{by.edit};
  if (!alert.steps.empty()) step.saving_bytes = alert.steps.front().saving_bytes;
  step.is_upper_bound = step.saving_bytes > 0;
  alert.steps.insert(alert.steps.begin(), std::move(step));
}

}  // namespace plimsoll::alerts
