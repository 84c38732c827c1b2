// Distinguishes exceptions of signal handlers from Plimsoll's own errors. The former belong to the
// program, wherever the signal arrived, and must be passed on to it.
#include <Python.h>
#include <nanobind/nanobind.h>

#include "bind.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

bool has(const nb::handle values, const nb::handle wanted) {
  for (const nb::handle value : values) {
    if (value.is(wanted)) return true;
    if (nb::isinstance<nb::tuple>(value) && has(value, wanted)) return true;  // of *args
  }
  return false;
}

// Removes the error from the variables that f_locals copied. Before Python 3.13, the frame keeps
// that copy. With the error in it, whose traceback has the frame, a cycle would keep the variables
// of all callers alive until the next garbage collection.
void forget(nb::handle error, const nb::object& frame, const nb::object& locals) {
  constexpr int kOptimized = 1;  // inspect.CO_OPTIMIZED, which the stable ABI does not declare
  const nb::object code = frame.attr("f_code");
  const bool is_copy = (nb::cast<int>(code.attr("co_flags")) & kOptimized) != 0;
  if (!is_copy || PyDict_CheckExact(locals.ptr()) == 0) return;  // a proxy from Python 3.13 on
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(locals.ptr(), &at, &name, &value) != 0;) {
    if (value == error.ptr() && PyDict_SetItem(locals.ptr(), name, Py_None) != 0) PyErr_Clear();
  }
}

// Whether the frame is that of a signal handler. Python passes a handler the frame that it
// interrupted, which is also its caller. The type of the error is not sufficient: TimeoutError is
// an OSError.
bool is_handler(const nb::object& frame, nb::handle error) {
  const nb::object interrupted = frame.attr("f_back");
  if (interrupted.is_none()) return false;
  const nb::object locals = frame.attr("f_locals");
  const bool is_it = has(nb::steal(PyMapping_Values(locals.ptr())), interrupted);
  forget(error, frame, locals);
  return is_it;
}

// Runs no Python code, in which another signal could surface.
bool is_raised_by_signal(nb::handle error) {
  nb::object step = nb::steal(PyException_GetTraceback(error.ptr()));
  while (step.is_valid() && !step.is_none()) {
    if (is_handler(step.attr("tb_frame"), error)) return true;
    step = step.attr("tb_next");
  }
  return false;
}

int raise_kept(void* error) {
  const nb::object value = nb::steal(static_cast<PyObject*>(error));
  PyErr_SetObject(value.type().ptr(), value.ptr());
  return -1;
}

}  // namespace

void raise_later(nb::python_error& error) {
  nb::object value = nb::borrow(error.value());
  if (Py_AddPendingCall(&raise_kept, value.ptr()) == 0) {
    value.release();
  } else {  // too many calls are pending
    error.discard_as_unraisable("plimsoll");
  }
}

bool is_programs(const nb::python_error& error) {
  return !error.matches(PyExc_Exception) || is_raised_by_signal(error.value());
}

void bind_program_errors(nb::module_& module) {
  module.def("is_raised_by_signal", &is_raised_by_signal, nb::arg("error"),
             nb::sig("def is_raised_by_signal(error: BaseException) -> bool"),
             "Return whether a signal handler raised the error.");
}

}  // namespace plimsoll::python
