// plimsoll._core: the engine for Python. Each topic has a bind_<topic>.cc; names, defaults and
// documentation for users are in python/plimsoll.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "casters.h"
#include "plimsoll/version.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "The analysis engine. Private: use the package.";
  module.def("version", [] { return PLIMSOLL_VERSION; });
  plimsoll::python::raise_memory_error_for_failed_casts();
  plimsoll::python::bind_session(module);
  plimsoll::python::bind_arrow(module);
  plimsoll::python::bind_tracer(module);
}
