// Lines that make one tensor longer again and again, as torch.cat does with the results of each
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// How often the line of `largest` has extended it until the peak; 0 if the line does not do that.
// The old tensor is live until the new one is complete.
std::size_t times_appended(const Peak& peak, const PeakAllocation& largest);

// By how much the peak falls if the line wrote into tensors of the final size instead: an old
// tensor is then never live while the new one is.
std::uint64_t saving_of_appended(const Peak& peak, const PeakAllocation& largest);

// States it and gives the steps, if the line of the largest part does that. Returns whether it
// does.
bool advise_appended(const Peak& peak, const std::vector<std::uint32_t>& parts,
                     report::Finding& finding);

}  // namespace plimsoll::findings
