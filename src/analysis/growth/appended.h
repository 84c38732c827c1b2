// Tensors that an operator makes from a shorter one plus what is appended to it, as torch.cat and
// F.pad do.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/growth/survivors.h"

namespace plimsoll::analysis::growth {

// Whether the allocation is made by an operator that may append to a tensor.
bool joins(const model::Trace& trace, const model::DeviceTrace& device, std::uint32_t lifetime);

// A joined tensor that dies in the step that made it links tensors that live longer.
inline bool is_within_a_step(const Survivor& survivor) { return survivor.beyond == survivor.first; }

// For a tensor that is appended to, counts only the appended bytes; the tensor continues in its
// successor. Removes tensors that live only within a step.
void count_appended(const model::Trace& trace, const model::DeviceTrace& device,
                    const model::UserLines& lines, std::vector<Survivor>& survivor);

}  // namespace plimsoll::analysis::growth
