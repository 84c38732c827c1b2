// Joins torch's own history of its CUDA allocator to the recording that drove it. The history knows
// every block of its devices, and nothing of the program but lines; the recording knows the
// program, and of those devices the tensors that it met. In the trace that comes of it the
// history's devices stand beside the recording's others; what each allocation belongs to is what
// the recording says of the tensor in it, or else what the program was doing at that moment.
#pragma once

#include "base/column.h"
#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace.h"
#include "plimsoll/result.h"
#include "readers/beside.h"

namespace plimsoll::engine {

// The words of `doings` are `recorded`'s.
Result<model::Trace> join_torch_history(const model::Trace& recorded, const model::Trace& history,
                                        const base::Column<readers::Doing>& doings,
                                        base::Diagnostics& diagnostics, base::Progress& progress);

}  // namespace plimsoll::engine
