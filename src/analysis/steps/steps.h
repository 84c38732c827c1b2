// Each step of the training loop: its peak, and what was live when it ended, by category. Bytes are
// those of the allocations in the file, live until free_completed.
//
// Promises that the categories of a step sum to its end_bytes and its peak_bytes, to the byte. Of
// more than 10,000 steps the last ones are told.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::steps {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::steps
