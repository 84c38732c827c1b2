// What a holder alone retains: with its references removed, the objects below it that have no other
// reference, as a garbage collector finds them.
#pragma once

#include <vector>

#include "python/holders/chains.h"

namespace plimsoll::libtorch::holders {

std::vector<plimsoll_holder_cut> cut_holders(Walk& walk, Chains& chains);

}  // namespace plimsoll::libtorch::holders
