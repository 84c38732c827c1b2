// oom: what the device looked like at each out-of-memory event: who asked, what was live and by
// which lines, where the gaps were, and the cause class (cause.h). Segments are rolled back to the
// event; the sizes of blocks are those of model/heap_layout.h.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::oom {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::oom
