// Detects values that contain themselves. No snapshot has any, and code that walks a value relies
// on that.
#pragma once

#include "readers/torch_snapshot/pickle_value.h"

namespace plimsoll::readers::torch_snapshot {

// Visits everything below `root` once; bounded by the arena, at any depth of nesting.
bool contains_itself(const Value& root, const PickleArena& arena);

}  // namespace plimsoll::readers::torch_snapshot
