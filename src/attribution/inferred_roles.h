// Infers the categories of memory in PyTorch's snapshots. The files do not record them; stacks,
// lifetimes and sizes reveal them.
//
//   by stack and lifetime   allocations of the recorded history: where they were made, and what
//                           the program did while they were live
//   by size and count       memory from before the history: its sizes match those of the
//                           parameters' gradients in the history, once per copy of the model
//
// If a rule leaves doubt, the category is `unknown`. Inferred categories are correct in total
// bytes; among equal blocks from before the history, it is not known which block is which.
#pragma once

#include "model/trace.h"

namespace plimsoll::attribution {

// Fills in the categories; does nothing if the file records them, or has no history with stacks.
void infer_roles(model::Trace& trace);

}  // namespace plimsoll::attribution
