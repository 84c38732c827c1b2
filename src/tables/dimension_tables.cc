// The tables that rows of other tables refer to: `sites`, `tensors`, `steps`, `settings`, and the
// driver's `readings`.

#include <string>
#include <type_traits>
#include <variant>

#include "model/steps.h"
#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

using model::Site;
using model::StringId;

template <typename IdOf>
void add_text(TableBuilder& table, const char* name, const char* description, IdOf&& id_of) {
  table.add(name, description, table.with_nulls(table.strings(id_of), [&](std::size_t row) {
    return id_of(row) == StringId{};
  }));
}

std::string text_of(const model::Setting& setting) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) return value;
        if constexpr (std::is_same_v<Value, bool>) return value ? "true" : "false";
        if constexpr (!std::is_same_v<Value, std::string>) return std::to_string(value);
      },
      setting.value);
}

// One text per row, not shared with other rows.
template <typename TextOf>
BatchColumn own_texts(TableBuilder& table, std::size_t rows, TextOf&& text_at) {
  auto texts = std::make_shared<Dictionary>();
  for (std::size_t row = 0; row < rows; ++row) TableBuilder::append(*texts, text_at(row));
  BatchColumn cells = table.row_numbers();
  cells.dictionary = std::move(texts);
  return cells;
}

void add_steps(TableBuilder& table, const model::DeviceTrace& device, std::size_t number) {
  const auto ends = model::step_ends(table.trace(), device);
  table.begin_batch(ends.size());
  table.add("device", "such as cuda:0", table.devices([&](std::size_t) { return number; }));
  table.add("step", "number of the step",
            table.compute<std::uint64_t>([&](std::size_t row) { return ends[row].step; }));
  table.add("end_event", "how many of the device's events came before its end",
            table.compute<std::uint32_t>([&](std::size_t row) { return ends[row].event; }));
  table.add("end_time_ns", "as recorded",
            table.with_nulls(
                table.compute<std::int64_t>([&](std::size_t row) { return ends[row].time_ns; }),
                [&](std::size_t row) { return ends[row].time_ns == model::kNoTime; }));
}

}  // namespace

Table site_table(const TracePtr& recording) {
  TableBuilder table("sites", recording);
  const model::Trace& trace = table.trace();
  const auto site = [&](std::size_t row) -> const Site& {
    return trace.sites[model::SiteId{static_cast<std::uint32_t>(row)}];
  };
  table.begin_batch(trace.sites.size());
  table.add("site", "number of the site", table.row_numbers());
  table.add("stack", "row of the table stacks",
            table.compute<model::StackId>([&](std::size_t row) { return site(row).stack; }));
  table.add("stream", "handle of the stream, 0 for the default",
            table.compute<std::uint64_t>(
                [&](std::size_t row) { return trace.streams[site(row).stream.index()]; }));
  const auto add = [&](const char* name, const char* description, StringId Site::* field) {
    add_text(table, name, description, [&](std::size_t row) { return site(row).*field; });
  };
  add("layer", "path of the module", &Site::layer);
  add("operator", "the outermost operator that ran", &Site::op);
  add("inner_operator", "the innermost one", &Site::inner_op);
  add("forward_operator", "in backward: the operator that created the autograd node",
      &Site::forward_op);
  add("compile_context", "of torch.compile", &Site::compile_context);
  table.add("phase", "phase of the thread", own_texts(table, trace.sites.size(), [&](auto row) {
              return std::string(name_of(site(row).phase));
            }));
  table.add("autograd",
            "whether autograd recorded the operator: unknown, off, on or built (a node)",
            own_texts(table, trace.sites.size(),
                      [&](auto row) { return std::string(name_of(site(row).autograd)); }));
  return table.finish();
}

Table tensor_table(const TracePtr& recording) {
  TableBuilder table("tensors", recording);
  const auto& tensors = table.trace().tensors;
  table.begin_batch(tensors.size());
  table.add("tensor", "number of the tensor; 0: unknown", table.row_numbers());
  add_text(table, "name", "null: it has none", [&](std::size_t row) { return tensors[row].name; });
  add_text(table, "dtype", "null: unknown", [&](std::size_t row) { return tensors[row].dtype; });
  add_text(table, "shape", "null: unknown", [&](std::size_t row) { return tensors[row].shape; });
  return table.finish();
}

Table step_table(const TracePtr& recording) {
  TableBuilder table("steps", recording);
  const auto& devices = table.trace().devices;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    add_steps(table, devices[number], number);
  }
  if (devices.empty()) add_steps(table, model::DeviceTrace{}, 0);
  return table.finish();
}

Table setting_table(const TracePtr& recording) {
  TableBuilder table("settings", recording);
  const auto& settings = table.trace().settings;
  table.begin_batch(settings.size());
  table.add("name", "of the allocator's setting; nested ones have dotted names",
            own_texts(table, settings.size(), [&](auto row) { return settings[row].name; }));
  table.add("value", "as text",
            own_texts(table, settings.size(), [&](auto row) { return text_of(settings[row]); }));
  return table.finish();
}

Table reading_table(const TracePtr& recording) {
  TableBuilder table("readings", recording);
  const model::Trace& trace = table.trace();
  const auto& readings = trace.readings;
  table.begin_batch(readings.size());
  table.add("device", "such as cuda:0", table.devices([&](std::size_t row) {
    for (std::size_t number = 0; number < trace.devices.size(); ++number) {
      if (trace.devices[number].device == readings[row].device) return number;
    }
    return std::size_t{0};
  }));
  table.add("time_ns", "as recorded",
            table.compute<std::int64_t>([&](std::size_t row) { return readings[row].time_ns; }));
  table.add(
      "event", "how many of the device's events came before it",
      table.compute<std::uint32_t>([&](std::size_t row) { return readings[row].events_before; }));
  const auto add = [&](const char* name, const char* description,
                       std::optional<std::uint64_t> base::DeviceFigures::* figure) {
    table.add(name, description,
              table.with_nulls(
                  table.compute<std::uint64_t>(
                      [&](std::size_t row) { return (readings[row].figures.*figure).value_or(0); }),
                  [&](std::size_t row) { return !(readings[row].figures.*figure).has_value(); }));
  };
  using base::DeviceFigures;
  add("total_bytes", "of the device, as the driver reports", &DeviceFigures::total_bytes);
  add("free_bytes", "of the device, as the driver reports", &DeviceFigures::free_bytes);
  add("process_bytes", "used by this process, as the driver reports", &DeviceFigures::own_bytes);
  return table.finish();
}

}  // namespace plimsoll::tables
