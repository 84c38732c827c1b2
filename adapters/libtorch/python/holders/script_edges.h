// Tensors that objects of TorchScript contain, which have no Python objects.
#pragma once

#include <Python.h>
#include <c10/core/TensorImpl.h>

#include <functional>
#include <string>

namespace plimsoll::libtorch::holders {

bool is_script_type(PyTypeObject* type);

struct ScriptPlace {
  std::string attribute;  // "encoder.kept"
  bool is_item = false;   // of a container in that attribute
};
using VisitScript = std::function<void(const c10::TensorImpl&, const ScriptPlace&)>;
void for_each_script_tensor(PyObject* object, const VisitScript& visit);

}  // namespace plimsoll::libtorch::holders
