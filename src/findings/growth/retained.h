// The kind of memory that growing lines retain.
#pragma once

#include <span>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {

// Derived from the category of the device that grows most and, if that can be of a graph, from what
// the recording states about autograd for the lines of `rows` (all lines if they name none).
Retained retained_by(const Facts& facts, const DeviceFacts& device,
                     std::span<const report::GrowthRow> rows);

}  // namespace plimsoll::findings
