// Memory kept for backward: allocated in forward and live when a backward begins, by the operators
// and layers that allocated it. The backward is the one that uses memory live at the peak or, if
// none does, the one that begins with the most memory kept.
//
// This includes both what autograd saved and what the program itself retains of its forward. The
// recording shows where a tensor was allocated, but not what retains it. The rows of each of the
// two tables sum to `bytes`.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::saved {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::saved
