// The autograd node that runs on a thread: which forward operator it belongs to and, if it
// accumulates a gradient, whose gradient it is.
#pragma once

#include <cstdint>

#include "thread_state.h"

namespace at {
class Tensor;
}
namespace torch::autograd {
struct Node;
}

namespace plimsoll::libtorch {

// Returns the site of the node that this thread runs; zeros if unknown. A node that accumulates a
// gradient has the layer of its parameter.
ForwardSite site_of_running_node(ThreadState& thread);
ForwardSite site_of(ThreadState& thread, const torch::autograd::Node& node);

// Call this at a node's end: if it accumulated a gradient, tags the parameter's .grad as a
// gradient.
void tag_accumulated_gradient(ThreadState& thread);
void tag_accumulated_gradient(ThreadState& thread, const at::Tensor& parameter);

}  // namespace plimsoll::libtorch
