// Fills report.digest: what was live at the peak of each device, at the highest point of each phase
// and at the ends, by keys that survive edits of the program. Only questions that name this pass
// run it. Bytes are those of tables (model/live_set.h).
//
// The first quarter of the steps counts only for the peak: optimizers and caches fill in it.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::digest {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::digest
