// The table `events`: one row per event. One batch per device, because the model has one set of
// columns per device; rows are in the order of the recording.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tables/layer_cells.h"
#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

using model::DeviceTrace;
using model::Site;
using model::StringId;

std::shared_ptr<const Dictionary> action_names() {
  auto names = std::make_shared<Dictionary>();
  for (unsigned action = 0; action <= static_cast<unsigned>(model::Action::kUnknown); ++action) {
    TableBuilder::append(*names, to_string(static_cast<model::Action>(action)));
  }
  return names;
}

template <typename IsPresent>
bool on_some_device(const model::Trace& trace, IsPresent&& is_present) {
  return std::ranges::any_of(trace.devices, is_present);
}

class EventTable {
 public:
  explicit EventTable(TableBuilder& table)
      : table_(table), trace_(table.trace()), layers_(trace_) {}

  void add_batch(const DeviceTrace& device, std::size_t number) {
    device_ = &device;
    number_lifetimes();
    table_.begin_batch(device.events.size());
    add_what(number);
    table_.add("site", "row of the table sites", table_.borrow(device.events.site.data()));
    table_.add("stream", "handle of the stream, 0 for the default",
               table_.compute<std::uint64_t>(
                   [&](std::size_t row) { return trace_.streams[site(row).stream.index()]; }));
    table_.add("stack", "row of the table stacks",
               table_.compute<model::StackId>([&](std::size_t row) { return site(row).stack; }));
    add_pool();
    if (trace_.has_categories()) {
      add_text("category", "category of the memory; inferred for snapshots", [&](std::size_t row) {
        return lifetime_[row] == kNone ? site(row).category
                                       : trace_.category(*device_, lifetime_[row]);
      });
    }
    add_site("operator", "outermost operator of the thread", &Site::op);
    add_site("inner_operator", "innermost operator of the thread", &Site::inner_op);
    add_site("forward_operator", "in backward, the operator that created the autograd node",
             &Site::forward_op);
    add_layer();
    add_phase_and_flags();
    add_tensor();
    add_site("compile_context", "compile context of torch.compile", &Site::compile_context);
    const auto has_metadata = [](const DeviceTrace& each) {
      return each.events.user_metadata.present();
    };
    if (on_some_device(trace_, has_metadata)) {
      add_text("user_metadata", "metadata that the program attached (torch.cuda.memory)",
               [&](std::size_t row) { return device_->events.user_metadata[row]; });
    }
  }

 private:
  static constexpr std::uint32_t kNone = model::kNone;

  const Site& site(std::size_t row) const { return trace_.site(*device_, row); }

  void number_lifetimes() {
    lifetime_.assign(device_->events.size(), kNone);
    const model::Lifetimes& rows = device_->lifetimes;
    for (std::uint32_t row = rows.baseline_count; row < rows.size(); ++row) {
      lifetime_[rows.alloc[row]] = row;
    }
  }

  void add_what(std::size_t number) {
    const model::Events& events = device_->events;
    table_.add("device", "name of the device, such as cuda:0",
               table_.devices([&](std::size_t) { return number; }));
    table_.add("event", "number of the event on its device, from 0",
               table_.compute<std::uint32_t>(
                   [](std::size_t row) { return static_cast<std::uint32_t>(row); }));
    BatchColumn actions = table_.borrow(events.action.data());
    actions.dictionary = action_names();
    table_.add("action",
               "as in PyTorch's snapshots; free means requested and completed simultaneously",
               std::move(actions));
    table_.add("address", "address of the block or segment; for oom, the free bytes of the device",
               table_.borrow(events.address.data()));
    table_.add("size_bytes", "requested bytes; for segment actions, the size of the segment",
               table_.borrow(events.size_bytes.data()));
    table_.add("time_ns", "as recorded",
               table_.with_nulls(table_.borrow(events.time_ns.data()), [&](std::size_t row) {
                 return events.time_ns[row] == model::kNoTime;
               }));
  }

  template <typename IdOf>
  void add_text(const char* name, const char* description, IdOf&& id_of) {
    BatchColumn cells = table_.strings(texts_[name], id_of);
    table_.add(name, description, table_.with_nulls(std::move(cells), [&](std::size_t row) {
      return id_of(row) == StringId{};
    }));
  }
  void add_site(const char* name, const char* description, StringId Site::* field) {
    if (!trace_.sites.states(field)) return;
    add_text(name, description, [&](std::size_t row) { return site(row).*field; });
  }

  void add_layer() {
    if (!trace_.has_layers()) return;
    layers_.add_to(table_, "path of the module that owns the tensor, or else allocated it",
                   [&](model::Layers& known, std::size_t row) {
                     const std::uint32_t lifetime = lifetime_[row];
                     return lifetime != kNone ? known.of(*device_, lifetime)
                                              : known.named(trace_.strings[site(row).layer]);
                   });
  }

  void add_pool() {
    if (!trace_.sites.states(&Site::pool)) return;
    auto names = std::make_shared<Dictionary>();
    for (const model::Pool& pool : trace_.pools) {
      TableBuilder::append(
          *names, "(" + std::to_string(pool.first) + ", " + std::to_string(pool.second) + ")");
    }
    BatchColumn cells =
        table_.compute<std::uint32_t>([&](std::size_t row) { return site(row).pool.value; });
    cells.dictionary = std::move(names);
    table_.add("pool", "memory pool, as PyTorch's pair of numbers",
               table_.with_nulls(std::move(cells), [&](std::size_t row) {
                 return site(row).pool == model::PoolId{};
               }));
  }

  void add_phase_and_flags() {
    if (trace_.has_phases()) {
      BatchColumn cells = table_.compute<std::uint8_t>(
          [&](std::size_t row) { return static_cast<std::uint8_t>(site(row).phase); });
      cells.dictionary = TableBuilder::phase_names();
      table_.add("phase", "phase of the thread", std::move(cells));
    }
    const auto has_flags = [](const DeviceTrace& each) { return each.lifetimes.flags.present(); };
    if (!trace_.has_attribution && !on_some_device(trace_, has_flags)) return;
    const auto add = [&](const char* name, const char* description, model::LifetimeFlags flag) {
      table_.add(name, description, table_.flags([&](std::size_t row) {
        return lifetime_[row] != kNone && has(device_->lifetimes.flags[lifetime_[row]], flag);
      }));
    };
    using model::LifetimeFlags;
    add("is_temporary", "true if freed before the operator that allocated it returned",
        LifetimeFlags::kTemporary);
    add("is_saved_for_backward", "true if created in forward and live when backward began",
        LifetimeFlags::kSavedForBackward);
    add("is_adopted", "true if allocated before the recorder first saw it",
        LifetimeFlags::kAdopted);
  }

  void add_tensor() {
    if (!trace_.has_tensors()) return;
    const auto add = [&](const char* name, const char* description,
                         StringId model::Tensor::* member) {
      add_text(name, description, [&](std::size_t row) {
        const std::uint32_t lifetime = lifetime_[row];
        if (lifetime == kNone) return StringId{};
        return trace_.tensors[device_->lifetimes.tensor[lifetime].index()].*member;
      });
    };
    add("tensor", "name of the tensor, if it has one", &model::Tensor::name);
    add("dtype", "dtype of the tensor in the memory, if known", &model::Tensor::dtype);
    add("shape", "shape of that tensor", &model::Tensor::shape);
  }

  TableBuilder& table_;
  const model::Trace& trace_;
  LayerCells layers_;
  const DeviceTrace* device_ = nullptr;
  std::vector<std::uint32_t> lifetime_;  // by alloc event of the device; kNone for other events
  std::map<std::string_view, DistinctTexts> texts_;  // by column
};

}  // namespace

Table event_table(const TracePtr& recording) {
  TableBuilder table("events", recording);
  EventTable events(table);
  const auto& devices = table.trace().devices;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    events.add_batch(devices[number], number);
  }
  if (devices.empty()) events.add_batch(DeviceTrace{}, 0);
  return table.finish();
}

}  // namespace plimsoll::tables
