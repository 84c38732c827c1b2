#include "errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace plimsoll::python {

void raise(const Error& error) {
  // Messages quote paths, which may be any bytes.
  const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
      error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "backslashreplace"));
  const nb::object exception =
      nb::module_::import_("plimsoll.errors").attr("from_code")(to_string(error.code), message);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace plimsoll::python
