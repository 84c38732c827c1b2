// Each step of the training loop: its peak, and the memory live at its end, by category. Bytes are
// those of the allocations in the file, live until free_completed.
//
// Invariant: the categories of a step sum to its end_bytes and its peak_bytes, to the byte. With
// more than 10,000 steps, only the last ones are listed.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::steps {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::steps
