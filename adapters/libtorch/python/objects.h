// Helpers for CPython objects: owned references, and attributes that may be absent.
#pragma once

#include <Python.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstdint>
#include <string>
#include <utility>

#include "attachment.h"
#include "python/holders/attributes.h"

namespace plimsoll::libtorch {

// An owned reference. Copying or dropping one needs the GIL.
class Reference {
 public:
  Reference() = default;
  static Reference steal(PyObject* object) { return Reference(object); }
  static Reference borrow(PyObject* object) {
    Py_XINCREF(object);
    return Reference(object);
  }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Reference(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// Returns the value of an object's own attribute; null if it has none. Never runs code of the
// program, such as a property: an exception of that code, or of a signal handler during it, would
// look like an internal error. `name` must be interned.
inline Reference own_attribute(PyObject* object, PyObject* name) {
  if (PyObject* dict = holders::dict_of(object)) {
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value == nullptr) PyErr_Clear();
    return Reference::borrow(value);
  }
  const holders::InlineValues inlined = holders::inline_values_of(object);
  for (std::size_t i = 0; i < inlined.count; ++i) {
    if (inlined.name(i) == name) return Reference::borrow(inlined.values[i]);
  }
  return {};
}

inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

inline PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// Returns null if the object is not a tensor.
inline const at::Tensor* as_tensor(PyObject* object) {
  if (THPVariableClass == nullptr || object == nullptr) return nullptr;
  PyTypeObject* type = Py_TYPE(object);
  if (!THPVariable_CheckTypeExact(type) &&
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass)) == 0) {
    return nullptr;
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.defined() ? &tensor : nullptr;
}

// The text of a dict's key if it is a string or an integer. For other keys, only the class, because
// their text may come from the program's code.
inline std::string text_of(PyObject* object) {
  if (PyUnicode_Check(object) != 0) {
    const char* bytes = PyUnicode_AsUTF8(object);
    if (bytes != nullptr) return bytes;
    PyErr_Clear();
    return "?";
  }
  if (PyLong_Check(object) == 0) return Py_TYPE(object)->tp_name;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? std::to_string(number) : "?";
}

inline std::uint32_t name_id(const std::string& text) {
  return recorder().name(text.data(), text.size());
}

// Where a tensor is among nested lists, tuples and dicts; see for_each_tensor().
class Path {
 public:
  explicit Path(const char* text) : text_(text) {}
  Path(const Path& outer, PyObject* key) : outer_(&outer), key_(key) {}
  Path(const Path& outer, Py_ssize_t index) : outer_(&outer), index_(index) {}
  // "args[0].mask"; built only on request.
  std::string text() const {
    if (outer_ == nullptr) return text_;
    const std::string outer = outer_->text();
    if (key_ == nullptr) return outer + "[" + std::to_string(index_) + "]";
    return outer.empty() ? text_of(key_) : outer + "." + text_of(key_);
  }

 private:
  const Path* outer_ = nullptr;
  const char* text_ = "";
  PyObject* key_ = nullptr;
  Py_ssize_t index_ = 0;
};

inline constexpr int kMaxNesting = 8;

template <typename Visit>
void for_each_tensor(PyObject* object, const Path& path, Visit&& visit, int nesting = 0) {
  if (object == nullptr || nesting > kMaxNesting) return;
  if (const at::Tensor* tensor = as_tensor(object)) {
    visit(path, *tensor);
  } else if (PyTuple_Check(object) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      for_each_tensor(PyTuple_GET_ITEM(object, i), Path(path, i), visit, nesting + 1);
    }
  } else if (PyList_Check(object) != 0) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      for_each_tensor(PyList_GET_ITEM(object, i), Path(path, i), visit, nesting + 1);
    }
  } else if (PyDict_Check(object) != 0) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value) != 0) {
      for_each_tensor(value, Path(path, key), visit, nesting + 1);
    }
  }
}

}  // namespace plimsoll::libtorch
