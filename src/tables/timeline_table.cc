// The table `timeline`: allocations, frees and layer calls, device by device in the order in which
// they happened, each with the device's totals after it.

#include <vector>

#include "analysis/layer_timeline.h"
#include "model/layers.h"
#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

using analysis::Happening;
using analysis::TimelineRow;

std::shared_ptr<const Dictionary> type_names() {
  auto names = std::make_shared<Dictionary>();
  for (const char* name : {"alloc", "free", "snapshot", "layer_enter", "layer_exit"}) {
    TableBuilder::append(*names, name);
  }
  return names;
}

struct TimelineTableRow {
  TimelineRow happened;
  std::uint32_t device = 0;  // row of Trace::devices
  std::uint32_t layer = 0;
};

class TimelineTableRows {
 public:
  explicit TimelineTableRows(TableBuilder& table) : table_(table), layers_(table.trace()) {
    const model::Trace& trace = table.trace();
    for (std::uint32_t number = 0; number < trace.devices.size(); ++number) {
      const model::DeviceTrace& device = trace.devices[number];
      analysis::for_each_happening(trace, device, [&](const TimelineRow& happened) {
        rows_.push_back(described(happened, device, number));
      });
    }
  }

  void add() {
    table_.begin_batch(rows_.size());
    table_.add("device", "name of the device, such as cuda:0",
               table_.devices([&](std::size_t row) { return rows_[row].device; }));
    BatchColumn types = table_.compute<std::uint8_t>(
        [&](std::size_t row) { return static_cast<std::uint8_t>(rows_[row].happened.what); });
    types.dictionary = type_names();
    table_.add("event_type",
               "kind of the row; snapshot: memory that was already live, or the totals at the end",
               std::move(types));
    table_.add("time_ns", "as recorded",
               table_.with_nulls(numbers(&TimelineRow::time_ns), [&](std::size_t row) {
                 return rows_[row].happened.time_ns == model::kNoTime;
               }));
    table_.add("size_bytes", "bytes allocated, freed or first seen",
               numbers(&TimelineRow::size_bytes));
    add_layer();
    table_.add("allocated_bytes", "allocated bytes of the device after it",
               numbers(&TimelineRow::allocated_bytes));
    table_.add("reserved_bytes",
               "reserved bytes of the device after it; without segments, allocated bytes",
               numbers(&TimelineRow::reserved_bytes));
    add_memory();
  }

 private:
  TimelineTableRow described(const TimelineRow& happened, const model::DeviceTrace& device,
                             std::uint32_t number) {
    const model::Trace& trace = table_.trace();
    TimelineTableRow row{.happened = happened, .device = number};
    if (happened.mark != model::kNone) {
      row.layer = layers_.named(trace.strings[trace.marks[happened.mark].name]).value;
    } else if (happened.lifetime != model::kNone) {
      row.layer = layers_.of(device, happened.lifetime).value;
    }
    return row;
  }

  template <typename T>
  BatchColumn numbers(T TimelineRow::* member) {
    return table_.compute<T>([&](std::size_t row) { return rows_[row].happened.*member; });
  }

  void add_layer() {
    auto paths = std::make_shared<Dictionary>();
    for (std::uint32_t id = 0; id < layers_.size(); ++id) {
      TableBuilder::append(*paths, layers_.path(model::LayerId{id}));
    }
    BatchColumn cells =
        table_.compute<std::uint32_t>([&](std::size_t row) { return rows_[row].layer; });
    cells.dictionary = std::move(paths);
    table_.add("layer", "layer that owns the memory, or that is called",
               table_.with_nulls(std::move(cells),
                                 [&](std::size_t row) { return rows_[row].layer == 0; }));
  }

  // Facts about the allocated or freed memory.
  void add_memory() {
    const model::Trace& trace = table_.trace();
    const auto device = [&](std::size_t row) -> const model::DeviceTrace& {
      return trace.devices[rows_[row].device];
    };
    const auto is_none = [&](std::size_t row) {
      const std::uint32_t lifetime = rows_[row].happened.lifetime;
      return lifetime == model::kNone || device(row).lifetimes.alloc[lifetime] == model::kNone;
    };
    const auto address = [&](std::size_t row) {
      const std::uint32_t lifetime = rows_[row].happened.lifetime;
      return lifetime == model::kNone ? 0 : trace.address(device(row), lifetime);
    };
    table_.add("address", "address of the memory",
               table_.with_nulls(table_.compute<std::uint64_t>(address), [&](std::size_t row) {
                 return rows_[row].happened.lifetime == model::kNone;
               }));
    const auto add_text = [&](const char* name, const char* description, const auto& text) {
      const auto id = [&](std::size_t row) {
        return is_none(row) ? model::StringId{} : text(device(row), rows_[row].happened.lifetime);
      };
      table_.add(name, description, table_.with_nulls(table_.strings(id), [&](std::size_t row) {
        return id(row) == model::StringId{};
      }));
    };
    add_text("operator", "operator that allocated the memory",
             [&](const auto& on, std::uint32_t lifetime) { return trace.birth(on, lifetime).op; });
    add_text("category", "category of the memory",
             [&](const auto& on, std::uint32_t lifetime) { return trace.category(on, lifetime); });
    BatchColumn phases = table_.compute<std::uint8_t>([&](std::size_t row) {
      return static_cast<std::uint8_t>(
          is_none(row) ? model::Phase::kOther
                       : trace.birth(device(row), rows_[row].happened.lifetime).phase);
    });
    phases.dictionary = TableBuilder::phase_names();
    table_.add("phase", "phase in which the memory was allocated",
               table_.with_nulls(std::move(phases), is_none));
  }

  TableBuilder& table_;
  model::Layers layers_;
  std::vector<TimelineTableRow> rows_;
};

}  // namespace

Table timeline_table(const TracePtr& recording) {
  TableBuilder table("timeline", recording);
  TimelineTableRows(table).add();
  return table.finish();
}

}  // namespace plimsoll::tables
