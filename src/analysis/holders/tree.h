// The chains of references to live memory as a tree, from the roots of the program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/live_allocations.h"
#include "model/trace.h"
#include "report/holders.h"

namespace plimsoll::analysis::holders {

// Each allocation counts in its last chain, which is the shortest one that the walk found. Chains
// of several walks are merged by name. `live`: after `event`. All items of a container are the
// container, and a graph of autograd is one row. Small rows are summed. Empty if no walk reached
// any of the allocations.
std::vector<report::HolderRow> holder_tree(const model::Trace& trace,
                                           const model::DeviceTrace& device,
                                           std::span<const model::LiveAllocation> live,
                                           std::int64_t event);

}  // namespace plimsoll::analysis::holders
