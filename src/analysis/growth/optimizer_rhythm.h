// Unmarked steps: the ends of an optimizer's steps, from the stacks of its allocations.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

// Events after which an optimizer's step has ended ("before this event"), ascending; empty if no
// stack shows an optimizer, or its steps are irregular. If there are several optimizers, the one
// that steps most often counts.
std::vector<std::uint32_t> find_optimizer_steps(const model::Trace& trace,
                                                const model::DeviceTrace& device);

// Whether most steps have similar lengths, in events. Evaluations and the first step may differ.
bool is_regular(const std::vector<std::uint32_t>& ends);

}  // namespace plimsoll::analysis::growth
