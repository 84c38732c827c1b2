// The adapter with its Python module, as one translation unit.
//
// torch's libraries are compiled with NDEBUG. Without it, at::RecordFunction has another member,
// and reads of operator inputs fail.
#ifndef NDEBUG
#define NDEBUG
#endif

#include <torch/csrc/autograd/python_variable.h>

#include "adapter_sources.cc"
#include "python/calls.cc"
#include "python/escapes.cc"
#include "python/frames.cc"
#include "python/heap.cc"
#include "python/loaders.cc"
#include "python/module.cc"
#include "python/modules.cc"
#include "python/object_parts.cc"
#include "python/optimizers.cc"
#include "python/self_test.cc"
#include "python/threads.cc"
