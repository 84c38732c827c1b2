// A wrapper's parts are the tensors among its attributes: those in its own dict and in its slots.
// torch asks the class for them, with __tensor_flatten__, which is the program's code; hooks never
// run that.
#include "python/object_parts.h"

#include <Python.h>
#include <structmember.h>

#include <string_view>

#include "python/objects.h"
#include "tensor_parts.h"

namespace plimsoll::libtorch {
namespace {

constexpr int kMaxWrappers = 8;  // nesting depth

// Wrappers may refer to gradients that the program keeps itself (main_grad).
bool is_gradient(std::string_view attribute) {
  return attribute.find("grad") != std::string_view::npos;
}

void add_attributes(PyObject* wrapper, TensorParts& parts, int nesting);

void add_attribute(std::string_view name, PyObject* value, TensorParts& parts, int nesting) {
  const at::Tensor* tensor = as_tensor(value);
  if (tensor == nullptr || is_gradient(name)) return;
  if (!tensor->unsafeGetTensorImpl()->is_python_dispatch()) {
    const TensorParts inner = parts_of(*tensor);
    if (inner.empty()) parts.push_back(*tensor);
    parts.append(inner.begin(), inner.end());
    return;
  }
  const std::size_t before = parts.size();
  if (nesting < kMaxWrappers) add_attributes(value, parts, nesting + 1);
  if (parts.size() == before) parts.push_back(*tensor);
}

void add_attributes(PyObject* wrapper, TensorParts& parts, int nesting) {
  const Reference dict = Reference::steal(PyObject_GenericGetDict(wrapper, nullptr));
  PyErr_Clear();
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (dict && PyDict_Next(dict.get(), &position, &key, &value) != 0) {
    add_attribute(text_of(key), value, parts, nesting);
  }
  const auto* end = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  for (PyTypeObject* type = Py_TYPE(wrapper); type != nullptr && type != end;
       type = type->tp_base) {
    for (const PyMemberDef* slot = type->tp_members; slot != nullptr && slot->name != nullptr;
         ++slot) {
      if (slot->type != T_OBJECT_EX) continue;
      PyObject* held =
          *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(wrapper) + slot->offset);
      add_attribute(slot->name, held, parts, nesting);
    }
  }
}

class WithGil {
 public:
  WithGil() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~WithGil() {
    PyErr_Restore(type_, value_, traceback_);
    PyGILState_Release(state_);
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_ = PyGILState_Ensure();
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

void add_wrapped(const at::Tensor& tensor, TensorParts& parts) {
  if (is_finalizing()) return;
  const WithGil gil;
  const Reference wrapper = Reference::steal(THPVariable_Wrap(tensor));
  if (wrapper) add_attributes(wrapper.get(), parts, 0);
}

}  // namespace

void find_parts_of_wrappers() { g_add_wrapped = add_wrapped; }

}  // namespace plimsoll::libtorch
