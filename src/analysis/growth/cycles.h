// Unmarked steps: the minima between two peaks of a device's live bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

// Event numbers of the valleys ("before this event"), ascending. Empty if the total does not rise
// and fall, or if it grows by more than half of its falls, because such cycles are not steps.
std::vector<std::uint32_t> find_valleys(const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
