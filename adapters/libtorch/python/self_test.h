// Checks, once after loading, that the adapter reads this torch and this Python correctly.
#pragma once

#include <Python.h>

namespace plimsoll::libtorch {

// (tensor, its data_ptr(), the calling line) -> None, or one sentence that names the failed check.
// Must not be called while hooks are attached.
PyObject* self_test(PyObject* self, PyObject* args);

}  // namespace plimsoll::libtorch
