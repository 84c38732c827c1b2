// The pass "device": how PyTorch's allocator and everything else used the whole device, when it was
// fullest and when it ran out of memory, as reported by the driver while the program ran.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::device {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::device
