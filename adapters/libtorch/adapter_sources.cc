// The sources of the adapter that C++ and Python programs share, in one translation unit: torch's
// headers, which cost nearly all of the time that compiling takes, are read once.
#include "allocation_context.cc"
#include "attach.cc"
#include "autograd_link.cc"
#include "autograd_nodes.cc"
#include "cpu_allocator.cc"
#include "cpu_failures.cc"
#include "operators.cc"
#include "parameter_layers.cc"
#include "parameters.cc"
#include "tensor_parts.cc"
#include "tensors.cc"
#include "thread_state.cc"
