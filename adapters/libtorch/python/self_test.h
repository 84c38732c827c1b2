// Does the adapter see what this torch and this Python do? Asked once, when it has been loaded.
#pragma once

#include <Python.h>

namespace plimsoll::libtorch {

// (tensor, its data_ptr(), the calling line) -> None, or one sentence that says what does not work.
// Nothing may be attached.
PyObject* self_test(PyObject* self, PyObject* args);

}  // namespace plimsoll::libtorch
