// Evidence and advice about activations of code that runs repeatedly before a backward frees its
// allocations.
#pragma once

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// If the program calls most of the forwards in `explanation` repeatedly, or an earlier backward has
// left memory (create_graph=True, retain_graph=True): adds which line does so, and returns the
// steps.
Steps steps_for_calls(const Peak& peak, Explanation& explanation);

// Whether the allocation's line is in a torch.autograd.Function of the program, which torch calls.
bool is_of_autograd_function(const Peak& peak, const PeakAllocation& allocation);

}  // namespace plimsoll::findings
