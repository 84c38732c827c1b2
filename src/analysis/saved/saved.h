// What is kept for backward: of all moments at which a backward began, the one with most memory
// that was made in forward and was alive then, and who made it.
//
// That is what autograd saved, and besides it what the program itself still held of its forward;
// who made a tensor is known, who keeps it is not. Rows of the two tables sum to `bytes`.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::saved {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::saved
