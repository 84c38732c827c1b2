#include "python/owners.h"

#include "python/heap.h"
#include "python/holders/attributes.h"
#include "python/modules.h"
#include "python/objects.h"

namespace plimsoll::libtorch {
namespace {

template <typename Visit>
void for_each_attribute(PyObject* object, Visit&& visit) {
  const holders::InlineValues values = holders::inline_values_of(object);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (values.values[i] != nullptr) visit(values.name(i), values.values[i]);
  }
  PyObject* dict = holders::dict_of(object);
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &name, &value) != 0) visit(name, value);
}

}  // namespace

void for_each_tensor_attribute(
    PyObject* object, const std::function<void(PyObject* name, const at::Tensor& tensor)>& visit) {
  for_each_attribute(object, [&](PyObject* name, PyObject* value) {
    if (const at::Tensor* tensor = as_tensor(value)) visit(name, *tensor);
  });
}

PyObject* owner_of(PyObject* optimizer, const at::Tensor& parameter) {
  PyObject* owner = nullptr;
  for_each_tracked([&](PyObject* object) {
    const bool is_plain =
        PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) != 0 && !is_module(object);
    if (owner != nullptr || !is_plain) return;
    bool has_optimizer = false, has_parameter = false;
    for_each_attribute(object, [&](PyObject* /*name*/, PyObject* value) {
      has_optimizer = has_optimizer || value == optimizer;
      const at::Tensor* tensor = as_tensor(value);
      has_parameter = has_parameter || (tensor != nullptr && tensor->is_same(parameter));
    });
    if (has_optimizer && has_parameter) owner = object;
  });
  return owner;
}

}  // namespace plimsoll::libtorch
