// Quiet writing, for files that Plimsoll's Python code writes in the user's program.
#include <nanobind/nanobind.h>

#include <optional>

#include "bind.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// In C++, because the handler of another signal may raise between any two Python instructions.
struct QuietBlock {
  std::optional<QuietWriting> writing;
};

}  // namespace

void bind_quiet_writing(nb::module_& module) {
  made_class<QuietBlock>(module, "QuietWriting",
                         "Context in which a failing write raises OSError and sends no signal.")
      .def(nb::init<>())
      .def("__enter__", [](QuietBlock& self) { self.writing.emplace(); })
      .def(
          "__exit__", [](QuietBlock& self, const nb::args&) { self.writing.reset(); },
          nb::sig("def __exit__(self, *error: object) -> None"));
}

}  // namespace plimsoll::python
