// The categories of what PyTorch's snapshots hold. The files do not record them; stacks, lifetimes
// and sizes show them.
//
//   by stack and lifetime   allocations of the recorded history: where they were made, and what
//                           went on while they lived
//   by size and count       memory from before the history: it has the sizes of a model whose
//                           parameters' gradients the history shows, once for each copy
//
// A rule that does not hold without doubt leaves `unknown`. What is inferred is right for the sum
// of a category's bytes; of equal blocks from before the history it is open which is which.
#pragma once

#include "model/trace.h"

namespace plimsoll::engine {

// Fills the categories in; nothing happens where the file records them, or has no history with
// stacks.
void infer_roles(model::Trace& trace);

}  // namespace plimsoll::engine
