// References that only C++ has: of tensors, of autograd nodes and of what they have saved.
#pragma once

#include <Python.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <string>

#include "python/holders/edges.h"

namespace plimsoll::libtorch::holders {

bool is_function_type(PyTypeObject* type);
bool is_node_type(PyTypeObject* type);

// What a reference of a tensor or a node is.
enum class Part : std::uint8_t {
  kMemory,
  kGradient,
  kGradFn,
  kBase,
  kHooks,
  kSaved,
  kUnpackHook,
  kVariable,
  kNext,
  kObject,  // its Python object
  kOther
};

class Parts {
 public:
  // `name`: of a saved variable or a dict of hooks.
  virtual void part(const void* target, Kind kind, Part what, const char* name) = 0;

 protected:
  ~Parts() = default;
};

void for_each_part_of_tensor(c10::TensorImpl& tensor, Parts& parts);
void for_each_part_of_node(torch::autograd::Node& node, Parts& parts);
void for_each_part_of_node_object(PyObject* object, Parts& parts);
void for_each_part_of_function(PyObject* object, Parts& parts);

std::int64_t uses_of_tensor(const c10::TensorImpl& tensor);
std::int64_t uses_of_storage(const c10::StorageImpl& storage);
std::int64_t uses_of_node(torch::autograd::Node& node);

PyObject* object_of_tensor(const c10::TensorImpl& tensor);  // borrowed; null if it has none
PyObject* object_of_node(const torch::autograd::Node& node);
std::string name_of_node(const torch::autograd::Node& node);

// Finds the types of torch's nodes. Before the first walk.
void find_node_types();

}  // namespace plimsoll::libtorch::holders
