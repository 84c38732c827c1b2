// The logits of a cross entropy, with the copies that lead from the linear operator to the loss.
#pragma once

#include <cstdint>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// The steps for the logits of the largest cross entropy before the peak, if a linear operator makes
// them and `parts` contain some of them, their copies or gradients. Adds what they are to the
// evidence.
Steps steps_for_logits(const Peak& peak, const std::vector<std::uint32_t>& parts,
                       report::Finding& finding);

}  // namespace plimsoll::findings
