// The answer about last uses as a sentence, which reports show below their verdict.
#pragma once

#include <string>

#include "report/last_use.h"

namespace plimsoll::analysis::uses {

// "No operator uses 4.1 of 30.7 GiB again; freeing it when it was last used would lower the peak to
// 27.2 GiB."
std::string sentence(const report::LastUse& found);

}  // namespace plimsoll::analysis::uses
