#include "base/finding.h"

#include "base/units.h"

namespace plimsoll {

std::string step_text(const FindingStep& step) {
  if (step.saving_bytes == 0) return step.text;
  return step.text + (step.is_upper_bound ? " Saves up to " : " Saves ") +
         base::bytes_text(step.saving_bytes) + ".";
}

}  // namespace plimsoll
