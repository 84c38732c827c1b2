// Lines that make one tensor longer again and again, as torch.cat does with the results of each
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// If the line of the largest part makes one tensor longer again and again, states that and gives
// the steps: the old tensor is live until the new one is complete. Returns whether it does.
bool advise_appended(const Peak& peak, const std::vector<std::uint32_t>& parts,
                     report::Finding& finding);

}  // namespace plimsoll::findings
