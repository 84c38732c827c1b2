// Steps that nobody marked: the moments between two humps of a device's live bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

// Event numbers of the valleys ("the moment before this event"), ascending; empty if the total does
// not rise and fall, or if it grows by more than half of what it falls: then humps are no steps.
std::vector<std::uint32_t> find_valleys(const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
