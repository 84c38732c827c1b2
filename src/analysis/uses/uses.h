// uses: what is live at the peak and no operator uses again, by line, and how much lower the peak
// would be if it were freed when it was last used (report/last_use.h, docs/last-use.md).
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::uses {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::uses
