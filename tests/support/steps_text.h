// The steps of a finding as one text, for tests.
#pragma once

#include <string>

#include "base/finding.h"

namespace plimsoll {

// "Do this. Saves 1.0 MiB. | Do that."
inline std::string steps_text(const Finding& finding) {
  std::string text;
  for (const FindingStep& step : finding.steps) {
    text += (text.empty() ? "" : " | ") + step_text(step);
  }
  return text;
}

}  // namespace plimsoll
