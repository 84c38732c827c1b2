// Objects of plain classes that have an optimizer and its parameters as attributes, such as the
// GaussianModel of 3D Gaussian splatting. Their tensors are named by their attributes.
#pragma once

#include <Python.h>

#include <functional>

#include <ATen/core/Tensor.h>

namespace plimsoll::libtorch {

// Returns a borrowed reference; null if there is none. Visits all objects, which takes some 20 ms.
PyObject* owner_of(PyObject* optimizer, const at::Tensor& parameter);

void for_each_tensor_attribute(
    PyObject* object, const std::function<void(PyObject* name, const at::Tensor& tensor)>& visit);

}  // namespace plimsoll::libtorch
