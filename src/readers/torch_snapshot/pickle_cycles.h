// Does a value contain itself? No snapshot does, and whoever walks one relies on it.
#pragma once

#include "readers/torch_snapshot/pickle_value.h"

namespace plimsoll::readers::torch_snapshot {

// Looks at everything that `root` holds, once; bounded by the arena, however deep the nesting.
bool contains_itself(const Value& root, const PickleArena& arena);

}  // namespace plimsoll::readers::torch_snapshot
