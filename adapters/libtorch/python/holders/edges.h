// The references that an object owns, strong ones only: those of Python objects, by the collector's
// own traversal, and those that only C++ has (of tensors, autograd nodes, arrays). Reading them
// takes no lasting reference and runs no code of the program. Needs the GIL.
#pragma once

#include <Python.h>

#include <cstdint>

#include "python/holders/table.h"

namespace plimsoll::libtorch::holders {

// Receives each reference of one object.
class References {
 public:
  virtual void object(PyObject* target) = 0;
  virtual void thing(const void* target, Kind kind) = 0;

 protected:
  ~References() = default;
};

// What a walk does with objects of a type.
enum class TypeUse : std::uint8_t {
  kUnknown,
  kIgnored,  // strings, numbers: they own nothing
  kTraversed,
  kTensor,
  kStorage,
  kNode,      // the Python object of a C++ node
  kFunction,  // of a torch.autograd.Function
  kArray,     // numpy.ndarray
  kType,
  kScript  // an object of TorchScript
};

// Types may be freed and others may take their addresses: forget them before each walk.
void forget_types();
TypeUse use_of(PyTypeObject* type);
inline bool is_walked(PyObject* object) { return use_of(Py_TYPE(object)) != TypeUse::kIgnored; }

// Whether the graphs of autograd are read, and gradients. Not while a backward or an operator may
// change them on another thread.
inline bool g_reads_graphs = true;

void for_each_reference(const Entry& entry, References& references);

// The number of references to what an entry stands for.
std::int64_t references_to(const Entry& entry);

}  // namespace plimsoll::libtorch::holders
