// The timeline pass, for tests of the passes that depend on it.
#pragma once

#include <memory>

#include "analysis/timeline/timeline.h"

namespace plimsoll::tests {

inline std::unique_ptr<analysis::Pass> timeline_pass() { return analysis::timeline::make(); }

}  // namespace plimsoll::tests
