// Lines that make one tensor longer again and again, as torch.cat does with the results of each
// batch.
#pragma once

#include <cstddef>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// How often the line of `largest` has extended it until the peak; 0 if the line does not do that.
// The old tensor is live until the new one is complete.
std::size_t times_appended(const Peak& peak, const PeakAllocation& largest);

}  // namespace plimsoll::findings
