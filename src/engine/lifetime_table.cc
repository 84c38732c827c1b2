// The table `lifetimes`: one row an allocation, from alloc to free. One batch a device, because the
// model holds one set of columns a device. Events are numbers on the device; null where there is
// none.

#include "engine/table_builder.h"
#include "engine/tables.h"

namespace plimsoll::engine {
namespace {

using model::DeviceTrace;

void add_events(TableBuilder& table, const model::Lifetimes& rows) {
  const auto add = [&](const char* name, const char* description, const auto& column) {
    table.add(name, description,
              table.with_nulls(table.borrow(column.data()), [&](std::size_t row) {
                return column[row] == model::kNone || column[row] == model::kBeforeRecording;
              }));
  };
  add("alloc_event", "null: before the recording", rows.alloc);
  add("free_requested_event", "null: never, or before the recording", rows.free_requested);
  add("free_completed_event", "null: never", rows.free_completed);
  table.add("is_pending_at_start", "its free was requested before the recording",
            table.flags([&](std::size_t row) {
              return rows.free_requested[row] == model::kBeforeRecording;
            }));
}

void add_batch(TableBuilder& table, const DeviceTrace& device, std::size_t number) {
  const model::Trace& trace = table.trace();
  const model::Lifetimes& rows = device.lifetimes;
  table.begin_batch(rows.size());
  table.add("device", "such as cuda:0", table.devices([&](std::size_t) { return number; }));
  add_events(table, rows);
  table.add("size_bytes", "requested bytes", table.compute<std::uint64_t>([&](std::size_t row) {
    return trace.size_bytes(device, row);
  }));
  table.add("allocated_bytes", "of its block; null if not recorded",
            table.with_nulls(table.compute<std::uint64_t>(
                                 [&](std::size_t row) { return trace.block_bytes(device, row); }),
                             [&](std::size_t row) {
                               return !device.tells_blocks && rows.block[row] == model::kNone;
                             }));
  table.add("address", "of the block", table.compute<std::uint64_t>([&](std::size_t row) {
    return trace.address(device, row);
  }));
  table.add("stack", "row of the table stacks", table.compute<model::StackId>([&](std::size_t row) {
    return trace.stack(device, row);
  }));
  table.add("block", "row of the table blocks; null: freed, or no final state",
            table.with_nulls(
                table.compute<std::uint32_t>([&](std::size_t row) { return rows.block[row]; }),
                [&](std::size_t row) { return rows.block[row] == model::kNone; }));
}

}  // namespace

Table lifetime_table(const StatePtr& state) {
  TableBuilder table("lifetimes", state);
  const auto& devices = table.trace().devices;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    add_batch(table, devices[number], number);
  }
  if (devices.empty()) add_batch(table, DeviceTrace{}, 0);
  return table.finish();
}

}  // namespace plimsoll::engine
