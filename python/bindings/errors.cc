#include "errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace plimsoll::python {

nb::object decoded(std::string_view message) {
  return nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()),
                                        "backslashreplace"));
}

void raise(const Error& error) {
  const nb::object exception =
      nb::module_::import_("plimsoll.errors")
          .attr("from_code")(to_string(error.code), decoded(error.message));
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace plimsoll::python
