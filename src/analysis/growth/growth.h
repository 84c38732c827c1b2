// Memory that never comes back: source lines, layers and categories that leave allocations behind
// at every step. boundaries.h says what the steps are, base/growth_rule.h when a site grows.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::growth {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::growth
