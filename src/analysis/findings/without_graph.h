// When the tensors of forwards would be freed if the forwards built no graph.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

// Events by lifetime, for the chosen allocations of a forward: each is freed once the second one
// after it in the same forward is made. The last one of a forward is its result and stays.
std::unordered_map<std::uint32_t, std::uint32_t> frees_without_graph(
    const Peak& peak, const std::function<bool(const PeakAllocation&)>& is_chosen);

}  // namespace plimsoll::analysis::findings
