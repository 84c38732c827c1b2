// The texts about what a failed step needed: the estimate, and the changes to the program that
// would have let it finish.
#pragma once

#include <string>
#include <vector>

#include "report/oom.h"

namespace plimsoll::analysis::findings {

// Whether the estimate is known.
bool is_known(const report::OomNeed& need);
// Whether most of what the step needed grows with the batch.
bool is_mostly_batch(const report::OomNeed& need);

// "about 96.3 GiB, and 79.2 GiB are available".
std::string need_text(const report::OomDetails& oom);

// The estimate with its source, what has grown since the earlier step, and the changes that would
// not have been enough.
std::vector<std::string> need_sentences(const report::OomDetails& oom);

// The changes that would have been enough, as advice; empty if there are none.
std::string enough_text(const report::OomDetails& oom);

}  // namespace plimsoll::analysis::findings
