// The pass of last uses, for tests of the passes that run after it.
#pragma once

#include <memory>

#include "analysis/uses/uses.h"

namespace plimsoll::tests {

inline std::unique_ptr<analysis::Pass> uses_pass() { return analysis::uses::make(); }

}  // namespace plimsoll::tests
