// Finds what holds the program's memory. See docs/holders.md and plimsoll/holders_c.h.
#pragma once

#include <Python.h>

#include <span>

namespace plimsoll::libtorch::holders {

// find_holders(objects, nodes, milliseconds, error): walks from the program's roots to its tensors
// and reports the links to the recorder. 0: the default limit. `error`: the exception that ends the
// program, if one does. Returns whether the recorder took them.
PyObject* find_holders(PyObject* self, PyObject* args);

// The result and the arguments of a call that ends; null: none.
using Passed = std::span<PyObject* const>;

// At the end of a step: the same if the recorder wants it. Of the walks because memory grows from
// step to step or has run out, all after the first take at most a hundredth of the time.
void find_wanted_holders(Passed passed = {}) noexcept;
void begin_growth() noexcept;  // with a recording

// holders_as_python(objects, nodes, milliseconds, error): the same, as a dict, for tests.
PyObject* holders_as_python(PyObject* self, PyObject* args);

}  // namespace plimsoll::libtorch::holders
