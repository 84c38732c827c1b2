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
#ifdef PLIMSOLL_WITHOUT_HOLDERS
#include "python/holders/none.cc"
#else
#include "python/holders/attributes.cc"
#include "python/holders/chains.cc"
#include "python/holders/cut.cc"
#include "python/holders/descriptions.cc"
#include "python/holders/edges.cc"
#include "python/holders/find.cc"
#include "python/holders/graph_edges.cc"
#include "python/holders/names.cc"
#include "python/holders/owners.cc"
#include "python/holders/rest.cc"
#include "python/holders/roots.cc"
#include "python/holders/script_edges.cc"
#include "python/holders/table.cc"
#include "python/holders/walk.cc"
#endif
#include "python/loaders.cc"
#include "python/module.cc"
#include "python/modules.cc"
#include "python/native/attribution.cc"
#include "python/native/chains.cc"
#include "python/native/patched_words.cc"
#include "python/object_parts.cc"
#include "python/optimizers.cc"
#include "python/self_test.cc"
#include "python/threads.cc"
