// Which changes to the program would have let a failed step finish, from the estimate of what it
// needed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/oom/need.h"
#include "report/oom.h"

namespace plimsoll::analysis::oom {

// The largest part of the batch that fits into `available_bytes`, where memory that scales is
// proportional to the batch. 0: even the fixed memory does not fit; 1: the whole batch fits.
double largest_share(const Need& need, std::uint64_t available_bytes);

// `batch`: the number of samples, if it is known.
std::vector<report::OomChange> changes_for(const History& history, const Need& need,
                                           std::uint64_t available_bytes,
                                           std::optional<std::uint64_t> batch);

}  // namespace plimsoll::analysis::oom
