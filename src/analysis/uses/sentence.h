// The answer about last uses as a sentence, which reports show below their verdict.
#pragma once

#include <cstdint>
#include <string>

#include "report/last_use.h"

namespace plimsoll::analysis::uses {

// Whether operators use everything again, except for parts too small to matter.
bool is_all_used(const report::LastUse& found);

// "No operator uses 4.1 of 30.7 GiB again; freeing it when it was last used would lower the peak to
// 27.2 GiB." `at_end_bytes`: part of found.unused_bytes that is live when the recording ends; the
// program may read it later.
std::string sentence(const report::LastUse& found, std::uint64_t at_end_bytes = 0);

}  // namespace plimsoll::analysis::uses
