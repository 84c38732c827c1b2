// The table `lifetimes`: one row per allocation, from alloc to free. One batch per device, because
// the model has one set of columns per device. Events are numbered by device; null if there is
// none.

#include <map>
#include <memory>
#include <utility>

#include "analysis/holders/chains.h"
#include "analysis/holders/holders.h"
#include "tables/layer_cells.h"
#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

using model::DeviceTrace;

void add_events(TableBuilder& table, const model::Lifetimes& rows) {
  const auto add = [&](const char* name, const char* description, const auto& column) {
    table.add(name, description,
              table.with_nulls(table.borrow(column.data()), [&](std::size_t row) {
                return column[row] == model::kNone || column[row] == model::kBeforeRecording;
              }));
  };
  add("alloc_event", "event of the allocation; null if before the recording", rows.alloc);
  add("free_requested_event",
      "event at which the free was requested; null if never, or before the recording",
      rows.free_requested);
  add("free_completed_event", "event at which the free completed; null if never",
      rows.free_completed);
  table.add("is_pending_at_start", "true if its free was requested before the recording",
            table.flags([&](std::size_t row) {
              return rows.free_requested[row] == model::kBeforeRecording;
            }));
}

void add_uses(TableBuilder& table, const model::Lifetimes& rows) {
  const auto is_unknown = [&](std::size_t row) { return rows.unused_from[row] == model::kNone; };
  table.add("unused_from_event",
            "event before which the last use by an operator had ended; null if unknown",
            table.with_nulls(table.compute<std::uint32_t>(
                                 [&](std::size_t row) { return rows.unused_from[row]; }),
                             is_unknown));
  table.add("silent_allocations",
            "allocations on all devices from the last use to the free or the end; null if unknown",
            table.with_nulls(
                table.compute<std::uint32_t>([&](std::size_t row) { return rows.silence[row]; }),
                is_unknown));
  table.add(
      "longest_gap_allocations", "upper bound of the allocations between two uses; null if unknown",
      table.with_nulls(
          table.compute<std::uint64_t>([&](std::size_t row) { return rows.use(row).gap_bound(); }),
          is_unknown));
}

// What holds allocations, in the words of the reports. All batches share the texts.
class HolderPaths {
 public:
  explicit HolderPaths(const model::Trace& trace) : trace_(trace), index_(trace) {}

  void add_to(TableBuilder& table, const model::Lifetimes& rows) {
    BatchColumn cells =
        table.compute<std::uint32_t>([&](std::size_t row) { return path_to(rows.holder[row]); });
    cells.dictionary = texts_;
    table.add(
        "holder", "what holds it, as the last walk found that reached it; null if unknown",
        table.with_nulls(std::move(cells), [&](std::size_t row) { return rows.holder[row] == 0; }));
  }

 private:
  std::uint32_t path_to(std::uint32_t last) {
    const auto [path, is_new] = by_last_link_.try_emplace(last, 0);
    if (is_new) {
      path->second = TableBuilder::append(
          *texts_, last == 0 ? "" : analysis::holders::path_text(trace_, index_.holder(last)));
    }
    return path->second;
  }

  const model::Trace& trace_;
  analysis::holders::HolderIndex index_;
  std::shared_ptr<Dictionary> texts_ = std::make_shared<Dictionary>();
  std::map<std::uint32_t, std::uint32_t> by_last_link_;
};

void add_lifetimes(TableBuilder& table, const DeviceTrace& device, std::size_t number,
                   LayerCells& layers, HolderPaths& holders) {
  const model::Trace& trace = table.trace();
  const model::Lifetimes& rows = device.lifetimes;
  table.begin_batch(rows.size());
  table.add("device", "name of the device, such as cuda:0",
            table.devices([&](std::size_t) { return number; }));
  add_events(table, rows);
  table.add("size_bytes", "requested bytes", table.compute<std::uint64_t>([&](std::size_t row) {
    return trace.size_bytes(device, row);
  }));
  table.add("allocated_bytes", "bytes of its block; null if not recorded",
            table.with_nulls(table.compute<std::uint64_t>(
                                 [&](std::size_t row) { return trace.block_bytes(device, row); }),
                             [&](std::size_t row) {
                               return !device.has_block_sizes && rows.block[row] == model::kNone;
                             }));
  table.add("address", "address of the block", table.compute<std::uint64_t>([&](std::size_t row) {
    return trace.address(device, row);
  }));
  table.add("stack", "row of the table stacks", table.compute<model::StackId>([&](std::size_t row) {
    return trace.stack(device, row);
  }));
  table.add("tensor_row", "row of the table tensors; 0: unknown",
            table.compute<model::TensorId>([&](std::size_t row) { return rows.tensor[row]; }));
  if (trace.has_layers()) {
    layers.add_to(table, "the layer that reports assign it to; null if none",
                  [&](model::Layers& known, std::size_t row) { return known.of(device, row); });
  }
  table.add("block", "row of the table blocks; null if freed, or without final state",
            table.with_nulls(
                table.compute<std::uint32_t>([&](std::size_t row) { return rows.block[row]; }),
                [&](std::size_t row) { return rows.block[row] == model::kNone; }));
  if (trace.has_uses) add_uses(table, rows);
  if (!trace.holders.walks.empty()) holders.add_to(table, rows);
}

}  // namespace

Table lifetime_table(const TracePtr& recording) {
  TableBuilder table("lifetimes", recording);
  const auto& devices = table.trace().devices;
  LayerCells layers(table.trace());
  HolderPaths holders(table.trace());
  for (std::size_t number = 0; number < devices.size(); ++number) {
    add_lifetimes(table, devices[number], number, layers, holders);
  }
  if (devices.empty()) add_lifetimes(table, DeviceTrace{}, 0, layers, holders);
  return table.finish();
}

}  // namespace plimsoll::tables
