// The functions that module.cc calls to build the module.
#pragma once

#include <nanobind/nanobind.h>

namespace plimsoll::python {

void bind_arrow(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_tracer(nanobind::module_& module);

}  // namespace plimsoll::python
