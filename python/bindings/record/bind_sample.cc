// MemorySample and what it is made of.

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
  nb::class_<T> bound(module, name, doc);
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

// nanobind's table of objects grows where no exception may leave: without memory the program would
// end. It never shrinks, so it is given room here.
void make_room_for_objects() {
  constexpr int kObjects = 1024;
  nb::list objects;
  for (int i = 0; i < kObjects; ++i) objects.append(nb::cast(HostMemory()));
}

}  // namespace

void bind_sample(nb::module_& module) {
  bind_fields<MemoryShare>(module, "MemoryShare", "Live tensor memory that has a name in common.");
  bind_fields<LiveTensor>(module, "LiveTensor", "One live allocation.");
  bind_fields<DevicePart>(module, "DevicePart", "A part of what is used on a device.");
  bind_fields<DeviceBar>(module, "DeviceBar",
                         "Who holds a device's memory; the parts sum to used_bytes.")
      .def("text", &device_bar_text, "The parts as people read them.");
  bind_fields<HostMemory>(module, "HostMemory", "The machine, as this process sees it.");
  make_room_for_objects();
  bind_fields<DeviceMemory>(module, "DeviceMemory", "Its lists are copies: assign them whole.");
  bind_fields<MemorySample>(
      module, "MemorySample",
      "What memory holds at one moment. Its lists are copies: assign them whole.");
}

}  // namespace plimsoll::python
