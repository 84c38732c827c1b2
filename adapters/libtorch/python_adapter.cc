// The adapter with its Python module, as one translation unit.
#include <torch/csrc/autograd/python_variable.h>

#include "adapter_sources.cc"
#include "python_calls.cc"
#include "python_frames.cc"
#include "python_heap.cc"
#include "python_module.cc"
#include "python_modules.cc"
#include "python_optimizers.cc"
#include "python_self_test.cc"
#include "python_tensor_parts.cc"
#include "python_threads.cc"
