// Finds the tensors, modules and optimizers among all objects that Python's garbage collector
// tracks.
//
// gc.get_objects() copies every object into a list. This walks the collector's lists instead, in
// several lanes, and can skip what earlier searches visited: new objects are always linked after
// older ones. Needs the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "python/objects.h"

namespace plimsoll::libtorch {

enum class HeapPart : std::uint8_t {
  kAll,
  kNew  // objects created since the last search, and maybe some older ones
};

struct HeapObjects {
  std::vector<Reference> tensors;
  std::vector<Reference> modules;
  std::vector<Reference> optimizers;
};

// Stores torch's classes and gc.get_objects() before the first search. Returns false with an
// exception set on failure.
bool prepare_searches(PyTypeObject* module_class, PyTypeObject* optimizer_class);

HeapObjects search_heap(HeapPart part);

// Visits all objects that the collector tracks, and creates none. Does nothing if the layout of
// this Python's collector is unknown. `visit` must not change the heap.
void for_each_tracked(const std::function<void(PyObject*)>& visit);

// Makes the next search visit all objects.
void forget_searches();

}  // namespace plimsoll::libtorch
