// The pass "device": who held the whole device, our allocator and all else, when it was fullest and
// when it ran out of memory; as the driver reported while the program ran.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::device {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::device
