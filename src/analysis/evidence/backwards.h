// Where the backwards of a recording end. On a GPU, autograd runs on a thread of its own, which
// reports the end of a backward only when the next one begins.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::evidence {

// The events of the device before which a backward begins, ascending.
std::vector<std::uint32_t> marks_of(const model::Trace& trace, const model::DeviceTrace& device,
                                    model::MarkKind kind);

// The same for the ends. An end that coincides with the next begin, or that is missing, is moved
// back: to the first allocation outside backward, or the end of the step, that follows the last
// allocation in this backward. It stays missing if there is neither.
std::vector<std::uint32_t> backward_ends(const model::Trace& trace,
                                         const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::evidence
