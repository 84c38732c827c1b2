// Memory that is never freed: source lines, layers and categories that leave allocations behind at
// every step. boundaries.h defines the steps, and base/growth_rule.h when a site grows.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::growth {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::growth
