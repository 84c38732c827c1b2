// Memory kept for backward: allocated in forward and live when a backward begins, by the operators
// and layers that allocated it. The backward is the one that uses memory live at the peak; if none
// does, the one that begins with the most memory.
//
// This includes both what autograd saved and what the program itself retains of its forward. The
// allocation site of a tensor is known, its owner is not. Rows of the two tables sum to `bytes`.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::saved {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::saved
