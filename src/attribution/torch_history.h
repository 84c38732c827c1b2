// Joins torch's own history of its CUDA allocator with the recording that controlled it. The
// history has every block of its devices, but only source lines of the program. The recording has
// the program's context, but on those devices only the tensors that it saw. The joined trace
// contains the history's devices and the recording's other devices; each allocation is attributed
// by the recording's tensor in it, or else by the program's activity at that time.
#pragma once

#include "base/column.h"
#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace.h"
#include "plimsoll/result.h"
#include "readers/side_data.h"

namespace plimsoll::attribution {

// The strings of `activities` are those of `recorded`.
Result<model::Trace> join_torch_history(const model::Trace& recorded, const model::Trace& history,
                                        const base::Column<readers::ThreadActivity>& activities,
                                        base::Diagnostics& diagnostics, base::Progress& progress);

}  // namespace plimsoll::attribution
