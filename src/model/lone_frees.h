// Frees with one event instead of two. PyTorch can be asked to leave out free_requested or
// free_completed (skip_actions of _record_memory_history); the other event then ends the allocation
// completely.
#pragma once

#include "base/diagnostics.h"
#include "model/trace.h"

namespace plimsoll::model {

// Turns the frees of `device` into Action::kFree if one of the two events is never recorded. A
// single missing event does not prove that, because a file may begin or end between the two. The
// final segments must be in `trace`.
void join_lone_frees(const Trace& trace, DeviceTrace& device, base::Diagnostics& diagnostics);

}  // namespace plimsoll::model
