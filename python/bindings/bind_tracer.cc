// TracedBlocks for Python. The Python class names the layers.
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/session.h"
#include "plimsoll/tracer_results.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// Holds the GIL, so that no other thread sees a part of it. The analyses have run before.
void add_block(TracedBlocks& blocks, const Session& block, const Report& report) {
  raise_if_failed(blocks.add(block, report));
}

// The events of one point in time; later blocks do not change them.
struct EventView {
  std::shared_ptr<const TracedEvents> events;
};

nb::tuple fields_of(const EventView& view, std::size_t row) {
  const MemoryEvent event = (*view.events)[row];
  return nb::make_tuple(event.timestamp, event.event_type, event.size_bytes, event.layer_name,
                        event.allocated_bytes, event.reserved_bytes, event.fragmentation_ratio,
                        event.time_ns, event.address, event.op, event.phase, event.category);
}

nb::list layers_of(const TracedBlocks& blocks) {
  nb::list all;
  for (const LayerMemoryStats& each : blocks.layers()) {
    all.append(nb::make_tuple(
        each.layer_name, each.peak_allocated, each.peak_reserved, each.total_allocations,
        each.total_deallocations, each.avg_fragmentation, each.duration_ms, each.calls,
        each.forward_bytes, each.backward_bytes, each.optimizer_bytes, each.other_bytes,
        each.live_bytes, each.parameter_bytes, each.gradient_bytes, each.optimizer_state_bytes,
        each.activation_bytes, each.saved_bytes, each.peak_bytes));
  }
  return all;
}

}  // namespace

void bind_tracer(nb::module_& module) {
  nb::class_<EventView>(module, "TracedEvents", "Events of a tracer's device; immutable.")
      .def("__len__", [](const EventView& view) { return view.events->size(); })
      .def("fields_of", &fields_of, nb::arg("row"),
           nb::sig("def fields_of(self, row: int) -> tuple[typing.Any, ...]"),
           "Return the fields of `MemoryEvent`, in its order.");
  nb::class_<TracedBlocks>(module, "TracedBlocks",
                           "Sums the layers and keeps the newest events of a tracer's blocks.")
      .def(nb::init<std::string, std::size_t>(), nb::arg("device"), nb::arg("max_events"))
      .def("add", &add_block, nb::arg("block"), nb::arg("report"),
           "Add a block, given a report that was asked for all of its rows.")
      .def(
          "events", [](const TracedBlocks& blocks) { return EventView{blocks.events()}; },
          "Return the newest events.")
      .def("layers", &layers_of, nb::sig("def layers(self) -> list[tuple[typing.Any, ...]]"),
           "Return the fields of `LayerMemoryStats` for each layer, in their order.");
}

}  // namespace plimsoll::python
