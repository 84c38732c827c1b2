// What the rules about autograd graphs share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// Whether it is an activation that an operator of a forward allocated.
bool is_forward_activation(const Allocation& allocation);

// When the chosen allocations would be freed if autograd kept none of them, by lifetime: when the
// second one after it is made in the same forward pass. The last of a pass is its result.
struct FreedWithoutGraph {
  std::uint32_t event = 0;
  bool is_inside_operator = false;  // the operator that made it makes the next one, too
};
std::unordered_map<std::uint32_t, FreedWithoutGraph> freed_without_graph(
    const Peak& peak, const std::function<bool(const Allocation&)>& is_chosen);

}  // namespace plimsoll::findings
