// MemorySample and its parts.

#include "bind.h"
#include "casters.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "sample/sample_fields.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// A class with an attribute for each field.
template <typename T>
nb::class_<T> bind_fields(nb::module_& module, const char* name, const char* doc) {
  nb::class_<T> bound = made_class<T>(module, name, doc);
  bound.def(nb::init<>());
  sample::for_each_field<T>([&](const auto& field) {
    if constexpr (requires { field.of(T()).has_value(); }) {
      bound.def_rw(field.name, field.member, nb::arg().none());
    } else {
      bound.def_rw(field.name, field.member);
    }
  });
  return bound;
}

}  // namespace

void bind_sample(nb::module_& module) {
  bind_fields<MemoryShare>(module, "MemoryShare",
                           "Live tensor memory of one category, dtype or layer.");
  bind_fields<LiveTensor>(module, "LiveTensor", "One live allocation.");
  bind_fields<DevicePart>(module, "DevicePart", "A part of the memory in use on a device.");
  bind_fields<DeviceBar>(module, "DeviceBar",
                         "Memory of a device by user; the parts sum to used_bytes.")
      .def("text", &device_bar_text, "Return the parts as text.");
  bind_fields<HostMemory>(module, "HostMemory", "Memory of the machine, as this process sees it.");
  bind_fields<DeviceMemory>(
      module, "DeviceMemory",
      "Memory of a device. The lists are copies: to change one, assign a new list.");
  bind_fields<MemorySample>(module, "MemorySample",
                            "Memory in use at one point in time. The lists are copies: to change "
                            "one, assign a new list.");
}

}  // namespace plimsoll::python
