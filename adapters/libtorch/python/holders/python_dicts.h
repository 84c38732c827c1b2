// Reads dicts without comparing keys, which may run the program's code.
#pragma once

#include <Python.h>

namespace plimsoll::libtorch::holders {

template <typename Visit>
void for_each_item(PyObject* dict, Visit&& visit) {
  if (dict == nullptr || PyDict_Check(dict) == 0) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) != 0) visit(key, value);
}

// The value of a key that is a plain string; borrowed, null if there is none.
inline PyObject* find_item(PyObject* dict, const char* name) {
  PyObject* found = nullptr;
  for_each_item(dict, [&](PyObject* key, PyObject* value) {
    if (found != nullptr || PyUnicode_CheckExact(key) == 0) return;
    if (PyUnicode_CompareWithASCIIString(key, name) == 0) found = value;
  });
  return found;
}

}  // namespace plimsoll::libtorch::holders
