// Gives the repetitions of a block that were added, removed or resized, unlike others, names of
// their own, so that they are compared like other modules.
#pragma once

#include <utility>

#include "comparison/module_tree.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// If blocks.1 was resized and one block more is at the end, blocks.* of five blocks becomes
// blocks.*, blocks.1 and blocks.4. The rows of each point sum to the same bytes as before; which of
// them belongs to a repetition is assumed where the digest does not state it.
std::pair<report::Digest, report::Digest> with_changed_repetitions(const report::Digest& before,
                                                                   const report::Digest& after,
                                                                   const ModulePairs& modules);

}  // namespace plimsoll::comparison
