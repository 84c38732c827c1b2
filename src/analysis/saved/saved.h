// What is kept for backward: what was made in forward and is live when a backward begins, and which
// operators and layers made it. The backward is the one that uses what is live at the peak; if none
// does, the one that begins with most.
//
// That is what autograd saved, and what the program itself retains of its forward. What made a
// tensor is known, what retains it is not. Rows of the two tables sum to `bytes`.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::saved {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::saved
