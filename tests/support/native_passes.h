// The passes over the data of native recordings, for tests of passes that depend on them.
#pragma once

#include <memory>

#include "analysis/composition/composition.h"
#include "analysis/saved/saved.h"

namespace plimsoll::tests {

inline std::unique_ptr<analysis::Pass> composition_pass() { return analysis::composition::make(); }
inline std::unique_ptr<analysis::Pass> saved_pass() { return analysis::saved::make(); }

}  // namespace plimsoll::tests
