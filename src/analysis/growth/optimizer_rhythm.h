// Steps that nobody marked: the ends of an optimizer's steps, as the stacks of its allocations show
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

// Events after which an optimizer's step is over ("the moment before this event"), ascending; empty
// if no stack shows an optimizer, or its steps are irregular. Of several optimizers, the one that
// steps most often.
std::vector<std::uint32_t> find_optimizer_steps(const model::Trace& trace,
                                                const model::DeviceTrace& device);

// Whether most steps are about equally long, in events. Evaluations and the first step may differ.
bool is_regular(const std::vector<std::uint32_t>& ends);

}  // namespace plimsoll::analysis::growth
