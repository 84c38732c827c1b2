// The autograd node that runs on a thread: which forward operator it belongs to, and, where it
// accumulates a gradient, into whose.
#pragma once

#include <cstdint>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Of the node this thread runs: zeros where it is unknown. A node that accumulates a gradient has
// the layer of the parameter it serves.
ForwardSite site_of_running_node(ThreadState& thread);

// At a node's end: if it accumulated a gradient, tells that the parameter's .grad is one.
void tag_accumulated_gradient(ThreadState& thread);

}  // namespace plimsoll::libtorch
