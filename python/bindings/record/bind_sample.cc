// MemorySample and what it is made of.

#include "bind.h"
#include "casters.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

void bind_parts(nb::module_& module) {
  nb::class_<MemoryShare>(module, "MemoryShare")
      .def(nb::init<>())
      .def_rw("name", &MemoryShare::name)
      .def_rw("size_bytes", &MemoryShare::size_bytes)
      .def_rw("count", &MemoryShare::count);
  nb::class_<LiveTensor>(module, "LiveTensor")
      .def(nb::init<>())
      .def_rw("name", &LiveTensor::name)
      .def_rw("category", &LiveTensor::category)
      .def_rw("dtype", &LiveTensor::dtype)
      .def_rw("shape", &LiveTensor::shape)
      .def_rw("layer", &LiveTensor::layer)
      .def_rw("size_bytes", &LiveTensor::size_bytes);
  nb::class_<DevicePart>(module, "DevicePart", "A part of what is used on a device.")
      .def(nb::init<>())
      .def_rw("kind", &DevicePart::kind)
      .def_rw("size_bytes", &DevicePart::size_bytes)
      .def_rw("pid", &DevicePart::pid)
      .def_rw("count", &DevicePart::count)
      .def_rw("name", &DevicePart::name);
  nb::class_<DeviceBar>(module, "DeviceBar",
                        "Who holds a device's memory; the parts sum to used_bytes.")
      .def(nb::init<>())
      .def_rw("used_bytes", &DeviceBar::used_bytes)
      .def_rw("total_bytes", &DeviceBar::total_bytes)
      .def_rw("time_ns", &DeviceBar::time_ns)
      .def_rw("parts", &DeviceBar::parts)
      .def("text", &device_bar_text, "The parts as people read them.");
  nb::class_<HostMemory>(module, "HostMemory")
      .def(nb::init<>())
      .def_rw("rss_bytes", &HostMemory::rss_bytes, nb::arg().none())
      .def_rw("used_bytes", &HostMemory::used_bytes, nb::arg().none())
      .def_rw("total_bytes", &HostMemory::total_bytes, nb::arg().none())
      .def_rw("cpu_percent", &HostMemory::cpu_percent, nb::arg().none());
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
  bind_parts(module);
  make_room_for_objects();
  nb::class_<DeviceMemory>(module, "DeviceMemory", "Its lists are copies: assign them whole.")
      .def(nb::init<>())
      .def_rw("name", &DeviceMemory::name)
      .def_rw("live_bytes", &DeviceMemory::live_bytes)
      .def_rw("live_count", &DeviceMemory::live_count)
      .def_rw("categories", &DeviceMemory::categories)
      .def_rw("dtypes", &DeviceMemory::dtypes)
      .def_rw("layers", &DeviceMemory::layers)
      .def_rw("large_count", &DeviceMemory::large_count)
      .def_rw("large_bytes", &DeviceMemory::large_bytes)
      .def_rw("large_tensors", &DeviceMemory::large_tensors)
      .def_rw("allocated_bytes", &DeviceMemory::allocated_bytes, nb::arg().none())
      .def_rw("reserved_bytes", &DeviceMemory::reserved_bytes, nb::arg().none())
      .def_rw("peak_bytes", &DeviceMemory::peak_bytes, nb::arg().none())
      .def_rw("used_bytes", &DeviceMemory::used_bytes, nb::arg().none())
      .def_rw("total_bytes", &DeviceMemory::total_bytes, nb::arg().none())
      .def_rw("uuid", &DeviceMemory::uuid)
      .def_rw("bar", &DeviceMemory::bar, nb::arg().none());
  nb::class_<MemorySample>(module, "MemorySample",
                           "What memory holds at one moment. Its lists are copies: assign them "
                           "whole.")
      .def(nb::init<>())
      .def_rw("time_ns", &MemorySample::time_ns)
      .def_rw("iteration", &MemorySample::iteration)
      .def_rw("loss", &MemorySample::loss, nb::arg().none())
      .def_rw("large_tensor_bytes", &MemorySample::large_tensor_bytes)
      .def_rw("host", &MemorySample::host)
      .def_rw("devices", &MemorySample::devices);
}

}  // namespace plimsoll::python
