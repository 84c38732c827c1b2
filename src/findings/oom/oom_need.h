// The texts about what a failed step needed: the estimate, and the changes to the program that
// would have let it finish.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/oom.h"

namespace plimsoll::findings {

// Whether the estimate is known.
bool is_known(const report::OomNeed& need);
// Whether most of what the step needed grows with the batch.
bool is_mostly_batch(const report::OomNeed& need);
// Whether an earlier step with tensors of the same size has completed.
bool has_fitted_before(const report::OomNeed& need);
// Whether the process may use less than the device has.
bool has_limit(const report::OomDetails& oom);
// The bytes that were free in pieces and that contiguous memory would make usable. Memory of other
// private pools does not count.
std::uint64_t bytes_in_pieces(const report::OomDetails& oom);

// "about 96.3 GiB, and 79.2 GiB are available".
std::string need_text(const report::OomDetails& oom);

// The estimate with its source, what has grown since the earlier step, and the changes that would
// not have been enough.
std::vector<std::string> need_sentences(const report::OomDetails& oom);

// The changes that would have been enough, each as a next step.
std::vector<std::string> enough_texts(const report::OomDetails& oom);
// Whether a smaller batch may be enough; true if that is unknown.
bool is_batch_enough(const report::OomNeed& need);
// What contiguous memory would have left, if it would have been just enough.
std::optional<std::uint64_t> left_if_contiguous(const report::OomDetails& oom);

}  // namespace plimsoll::findings
