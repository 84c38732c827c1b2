// Tensors that grow because an operator appends to them (analysis/joining.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/growth/survivors.h"

namespace plimsoll::analysis::growth {

// Whether the tensor dies in the step that made it. Such a tensor is kept only to link tensors that
// live longer.
inline bool is_within_a_step(const Survivor& survivor) { return survivor.beyond == survivor.first; }

// For a tensor made by appending to another, counts only the appended bytes; the predecessor
// continues in it. Removes tensors that live only within a step.
void count_appended(const model::Trace& trace, const model::DeviceTrace& device,
                    const model::UserLines& lines, std::vector<Survivor>& survivor);

}  // namespace plimsoll::analysis::growth
