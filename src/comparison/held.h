// What holds the memory of a cause, in both recordings (docs/holders.md).
#pragma once

#include <vector>

#include "comparison/causes.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// Fills the holders of each cause, what changed, and the edit. Leaves out memory that is to be
// kept, such as parameters, and states nothing that a recording does not know: a digest from a file
// has no holders.
void name_holders(const std::vector<PairAtPoint>& rows, const report::Digest& before,
                  const report::Digest& after, Explained& explained);

// Whether the same holder, which is another one than before, holds the memory of both.
bool is_held_alike(const DiffCause& one, const DiffCause& other);

}  // namespace plimsoll::comparison
