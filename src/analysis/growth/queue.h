// Recognizes a growing queue, whose producer is faster than its consumer. Every tensor is
// eventually taken, so the survivors of the last step are all young; but each waits longer than
// those before it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "analysis/growth/survivors.h"
#include "base/growth_rule.h"

namespace plimsoll::analysis::growth {

// Returns the growth of the allocations of one site over `steps` steps; empty if they are not a
// growing queue.
std::optional<base::Growth> growth_of_queue(std::span<const Survivor> site, std::size_t steps);

}  // namespace plimsoll::analysis::growth
