// plimsoll._core: the engine as Python sees it. One bind_<topic>.cc a topic; names, defaults and
// documentation for users stand in python/plimsoll.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "plimsoll/version.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "The compiled half of plimsoll. Private: use the package.";
  module.def("version", [] { return PLIMSOLL_VERSION; });
  plimsoll::python::bind_session(module);
  plimsoll::python::bind_arrow(module);
}
