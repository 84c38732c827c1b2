// The table `events`: one row an event, device by device, in the order of the recording.

#include <string>

#include "engine/table_builder.h"
#include "engine/tables.h"

namespace plimsoll::engine {
namespace {

using model::Events;

std::shared_ptr<const Dictionary> action_names() {
  auto names = std::make_shared<Dictionary>();
  for (unsigned action = 0; action <= static_cast<unsigned>(model::Action::kUnknown); ++action) {
    TableBuilder::append(*names, to_string(static_cast<model::Action>(action)));
  }
  return names;
}

// The device of each row of `events`: rows stand device by device.
void add_device_and_number(TableBuilder& table) {
  const auto& devices = table.trace().devices;
  std::size_t at = 0;
  const auto device_of = [&](std::size_t row) {
    while (row < devices[at].first_event ||
           row >= devices[at].first_event + devices[at].event_count) {
      at = at + 1 < devices.size() ? at + 1 : 0;
    }
    return at;
  };
  table.add("device", "such as cuda:0", table.devices(device_of));
  table.add("event", "number of the event on its device, from 0",
            table.compute<std::uint32_t>([&](std::size_t row) {
              return static_cast<std::uint32_t>(row - devices[device_of(row)].first_event);
            }));
}

void add_optional(TableBuilder& table, const char* name, const char* description,
                  const model::OptionalColumn<model::StringId>& column) {
  if (!column.present()) return;
  Cells cells = table.strings([&](std::size_t row) { return column[row]; });
  table.add(name, description, table.with_nulls(std::move(cells), [&](std::size_t row) {
    return column[row] == model::StringId{};
  }));
}

void add_pool(TableBuilder& table, const Events& events) {
  if (!events.pool.present()) return;
  auto names = std::make_shared<Dictionary>();
  for (const model::Pool& pool : table.trace().pools) {
    TableBuilder::append(
        *names, "(" + std::to_string(pool.first) + ", " + std::to_string(pool.second) + ")");
  }
  Cells cells =
      table.compute<std::uint32_t>([&](std::size_t row) { return events.pool[row].value; });
  cells.dictionary = std::move(names);
  table.add("pool", "memory pool, as PyTorch's pair of numbers",
            table.with_nulls(std::move(cells),
                             [&](std::size_t row) { return events.pool[row] == model::PoolId{}; }));
}

void add_phase_and_flags(TableBuilder& table, const Events& events) {
  if (events.phase.present()) {
    auto names = std::make_shared<Dictionary>();
    for (unsigned phase = 0; phase <= static_cast<unsigned>(model::Phase::kData); ++phase) {
      TableBuilder::append(*names, to_string(static_cast<model::Phase>(phase)));
    }
    Cells cells = table.compute<std::uint8_t>(
        [&](std::size_t row) { return static_cast<std::uint8_t>(events.phase[row]); });
    cells.dictionary = std::move(names);
    table.add("phase", "phase of the thread", std::move(cells));
  }
  if (!events.flags.present()) return;
  const auto add = [&](const char* name, const char* description, model::EventFlags flag) {
    table.add(name, description,
              table.flags([&](std::size_t row) { return has(events.flags[row], flag); }));
  };
  using enum model::EventFlags;
  add("is_temporary", "freed before the operator that allocated it returned", kTemporary);
  add("is_saved_for_backward", "created in forward, live when backward began", kSavedForBackward);
  add("is_adopted", "allocated before the recorder first saw it", kAdopted);
}

void add_tensor(TableBuilder& table, const Events& events) {
  if (!events.tensor.present()) return;
  const auto add = [&](const char* name, const char* description, auto member) {
    const auto id = [&](std::size_t row) {
      return table.trace().tensors[events.tensor[row].index()].*member;
    };
    table.add(name, description, table.with_nulls(table.strings(id), [&](std::size_t row) {
      return id(row) == model::StringId{};
    }));
  };
  add("tensor", "the tensor's name, where it has one", &model::Tensor::name);
  add("dtype", "of the tensor in the memory, where one is known", &model::Tensor::dtype);
  add("shape", "of the same tensor", &model::Tensor::shape);
}

}  // namespace

Table event_table(const StatePtr& state) {
  TableBuilder table("events", state);
  const Events& events = table.trace().events;
  table.begin_batch(events.size());
  add_device_and_number(table);
  Cells actions = table.borrow(events.action.data());
  actions.dictionary = action_names();
  table.add("action", "as in PyTorch's snapshots; free: requested and completed simultaneously",
            std::move(actions));
  table.add("address", "of the block or segment; of oom: the device's free bytes",
            table.borrow(events.address.data()));
  table.add("size_bytes", "requested bytes; of segment actions: the segment's",
            table.borrow(events.size_bytes.data()));
  table.add("time_ns", "as recorded",
            table.with_nulls(table.borrow(events.time_ns.data()), [&](std::size_t row) {
              return events.time_ns[row] == model::kNoTime;
            }));
  table.add("stream", "handle of the stream, 0 for the default",
            table.compute<std::uint64_t>(
                [&](auto row) { return table.trace().streams[events.stream[row].index()]; }));
  table.add("stack", "row of the table stacks", table.borrow(events.stack.data()));
  add_pool(table, events);
  add_optional(table, "category", "as in the file; for snapshots inferred", events.category);
  add_optional(table, "operator", "the outermost operator that ran", events.op);
  add_optional(table, "inner_operator", "the innermost one", events.inner_op);
  add_optional(table, "forward_operator",
               "in backward: the operator that created the autograd node", events.forward_op);
  add_optional(table, "layer", "path of the module", events.layer);
  add_phase_and_flags(table, events);
  add_tensor(table, events);
  add_optional(table, "compile_context", "of torch.compile", events.compile_context);
  add_optional(table, "user_metadata", "what the program attached", events.user_metadata);
  return table.finish();
}

}  // namespace plimsoll::engine
