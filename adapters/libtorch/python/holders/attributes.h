// Attributes of Python objects, read from where the interpreter keeps them. Asking for an object's
// dict would create one in Python 3.11 and 3.12, and asking for an attribute may run the program's
// code.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "python/interpreter_frame.h"

namespace plimsoll::libtorch::holders {

// The values of an object without a dict, and their names.
struct InlineValues {
  PyObject** values = nullptr;
  PyObject** names = nullptr;  // every second one is a name
  std::size_t count = 0;

  PyObject* name(std::size_t i) const { return names[2 * i]; }
};

InlineValues inline_values_of(PyObject* object);
PyObject* dict_of(PyObject* object);  // borrowed; null if it has none yet

// The base of a numpy array, and the elements of one that contains objects.
PyObject* base_of_array(PyObject* array);
std::span<PyObject* const> objects_of_array(PyObject* array);

template <typename Visit>
void for_each_of_array(PyObject* array, Visit&& visit) {
  if (PyObject* base = base_of_array(array)) visit(base);
  for (PyObject* each : objects_of_array(array)) {
    if (each != nullptr) visit(each);
  }
}

// (name, value) of the members in the object itself: slots, and those of types in C.
template <typename Visit>
void for_each_member(PyObject* object, Visit&& visit) {
  for (PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    for (const PyMemberDef* member = type->tp_members; member != nullptr && member->name != nullptr;
         ++member) {
      if (member->type != T_OBJECT_EX && member->type != T_OBJECT) continue;
      PyObject* value =
          *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset);
      if (value != nullptr) visit(member->name, value);
    }
  }
}

// What an object of a class in Python owns: its dict or its values, and its slots.
template <typename Visit>
void for_each_attribute_source(PyObject* object, Visit&& visit) {
  const InlineValues values = inline_values_of(object);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (values.values[i] != nullptr) visit(values.values[i]);
  }
  if (PyObject* dict = dict_of(object)) visit(dict);
  for_each_member(object, [&](const char* /*name*/, PyObject* value) { visit(value); });
  if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) != 0) {
    visit(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
}

#if PY_VERSION_HEX >= 0x030B0000
// The locals of a frame, and then its stack as far as that is stored.
inline std::span<PyObject*> values_of(InterpreterFrame* frame) {
  auto** first = reinterpret_cast<PyObject**>(frame + 1);
  const int count = frame->stack_top >= 0 ? frame->stack_top : frame->code->co_nlocalsplus;
  return {first, static_cast<std::size_t>(count)};
}
// The frame of a frame object, and of a generator; null if it is gone.
InterpreterFrame* frame_of_object(PyObject* frame_object);
InterpreterFrame* frame_of_generator(PyObject* generator);
#endif

// The code that an entry of a traceback was in, null if its frame is gone, and the line.
PyCodeObject* code_of_traceback(const PyTracebackObject& traceback);
int line_of_traceback(const PyTracebackObject& traceback, PyCodeObject* code);

}  // namespace plimsoll::libtorch::holders
