// The table `marks`: one row per mark and device: the step boundaries, regions, backward passes,
// layer calls and runs of Python's garbage collector that the recorder or the program marked.

#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

std::shared_ptr<const Dictionary> kind_names() {
  auto names = std::make_shared<Dictionary>();
  for (const char* name :
       {"step", "region_begin", "region_end", "backward_begin", "backward_end", "layer_begin",
        "layer_end", "collection_begin", "collection_end", "uses_begin", "uses_end"}) {
    TableBuilder::append(*names, name);
  }
  return names;
}

void add_marks(TableBuilder& table, const model::DeviceTrace& device, std::size_t number) {
  const auto& marks = table.trace().marks;
  table.begin_batch(device.mark_events.size());
  table.add("device", "name of the device, such as cuda:0",
            table.devices([&](std::size_t) { return number; }));
  table.add("event", "number of the device's events before it",
            table.borrow(device.mark_events.data()));
  BatchColumn kinds = table.compute<std::uint8_t>(
      [&](std::size_t row) { return static_cast<std::uint8_t>(marks[row].kind); });
  kinds.dictionary = kind_names();
  table.add("kind", "what begins or ends there", std::move(kinds));
  table.add("step", "number of the step",
            table.with_nulls(
                table.compute<std::uint64_t>([&](std::size_t row) { return marks[row].step; }),
                [&](std::size_t row) { return marks[row].kind != model::MarkKind::kStep; }));
  table.add("name", "name of the region or layer",
            table.with_nulls(table.strings([&](std::size_t row) { return marks[row].name; }),
                             [&](std::size_t row) { return marks[row].name.value == 0; }));
  table.add("time_ns", "as recorded",
            table.compute<std::int64_t>([&](std::size_t row) { return marks[row].time_ns; }));
}

}  // namespace

Table mark_table(const TracePtr& recording) {
  TableBuilder table("marks", recording);
  const auto& devices = table.trace().devices;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    add_marks(table, devices[number], number);
  }
  if (devices.empty()) add_marks(table, model::DeviceTrace{}, 0);
  return table.finish();
}

}  // namespace plimsoll::tables
