// Tells what a signal's handler raised from what went wrong here: the first belongs to the program,
// wherever the signal came, and must leave our code.
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

// Python calls a handler with the frame that it interrupted, which is also the caller. The error
// need not tell a type of its own: TimeoutError is an OSError.
bool is_handler(const nb::object& frame) {
  const nb::object interrupted = frame.attr("f_back");
  if (interrupted.is_none()) return false;
  const nb::object locals = frame.attr("f_locals");
  return has(nb::steal(PyMapping_Values(locals.ptr())), interrupted);
}

// Runs no Python code: another signal could surface there.
bool is_raised_by_signal(nb::handle error) {
  nb::object step = nb::steal(PyException_GetTraceback(error.ptr()));
  while (step.is_valid() && !step.is_none()) {
    if (is_handler(step.attr("tb_frame"))) return true;
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
             "Whether the handler of a signal raised the error.");
}

}  // namespace plimsoll::python
