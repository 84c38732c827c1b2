// The data block for the page's script: the tables at every point that can be selected, as JSON of
// differences instead of values, deflated and base64-encoded.

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/json_writer.h"
#include "exporters/html/encoding.h"
#include "exporters/html/sections.h"
#include "model/steps.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

using base::JsonWriter;

// Differences between neighbors; the first is the difference from 0. Most are 0, and all are short.
template <typename ValueOf>
void write_deltas(JsonWriter& json, std::size_t count, ValueOf&& value_of) {
  json.begin_array();
  std::uint64_t before = 0;  // differences wrap: a hostile file may have any size
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::uint64_t>(value_of(i));
    json.number(static_cast<std::int64_t>(value - before));
    before = value;
  }
  json.end_array();
}

void write_where(JsonWriter& json, const DeviceView& view) {
  const model::Trace& trace = view.input.trace;
  const model::DeviceTrace& device = view.device;
  const auto& points = view.points;
  const auto event_of = [&](std::size_t i) { return std::max<std::int64_t>(0, points[i].event); };
  json.key("event");  // -1: before the first one
  write_deltas(json, points.size(), [&](std::size_t i) { return points[i].event; });
  json.key("column");  // in hundredths
  write_deltas(json, points.size(), [&](std::size_t i) { return points[i].column * 100; });
  json.key("live");
  write_deltas(json, points.size(), [&](std::size_t i) { return points[i].bytes; });
  json.key("reserved");
  write_deltas(json, points.size(), [&](std::size_t i) { return points[i].reserved_bytes; });
  if (trace.has_uses) {
    json.key("unused");
    write_deltas(json, points.size(), [&](std::size_t i) { return points[i].unused_bytes; });
  }
  if (view.report.first_time_ns) {
    json.key("time");
    const auto first = static_cast<std::uint64_t>(*view.report.first_time_ns);
    std::uint64_t latest = first;
    write_deltas(json, points.size(), [&](std::size_t i) {
      const std::int64_t time = device.events.time_ns[static_cast<std::size_t>(event_of(i))];
      if (time != model::kNoTime) latest = static_cast<std::uint64_t>(time);
      return latest - first;
    });
  }
  const auto ends = model::step_ends(trace, device);
  if (!ends.empty()) {
    json.key("step");
    json.begin_array();
    for (std::size_t i = 0; i < points.size(); ++i) {
      const std::size_t step = model::step_of(ends, static_cast<std::uint32_t>(event_of(i)));
      json.string(step < ends.size() ? "step " + std::to_string(ends[step].step)
                                     : report::kAfterLastStep);
    }
    json.end_array();
  }
  if (!trace.has_phases()) return;
  json.key("phase");
  json.begin_array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto event = static_cast<std::size_t>(event_of(i));
    const bool allocates = device.events.action[event] == model::Action::kAlloc;
    const model::Phase phase = allocates ? trace.site(device, event).phase : model::Phase::kOther;
    json.string(phase == model::Phase::kOther ? "" : name_of(phase));
  }
  json.end_array();
}

// The named points: the peak and the failures.
void write_marks(JsonWriter& json, const DeviceView& view) {
  json.key("peak");
  const charts::TimelineData& data = view.over_time;
  if (data.is_peak_known) {
    json.number(static_cast<std::uint64_t>(view.of_column[data.peak_column]));
  } else {
    json.null();
  }
  json.key("stack");  // names of the chart's groups, from the bottom up
  json.begin_array();
  for (const charts::GroupStyle& style : data.stack) {
    json.string(page::shortened(data.bands.names[style.group], kLongestName));
  }
  json.end_array();
  json.key("failures");
  json.begin_array();
  for (const charts::TimelineData::Failure& failure : data.failures) {
    const auto row = view.row_of(static_cast<std::int64_t>(failure.event));
    if (row) json.number(static_cast<std::uint64_t>(*row));
  }
  json.end_array();
}

void write_table(JsonWriter& json, const BandTable& table) {
  const std::size_t points = table.bands.points;
  json.begin_object();
  json.key("by");
  json.string(model::to_string(table.by));
  json.key("names");
  json.begin_array();
  for (const std::string& name : table.bands.names) {
    json.string(page::shortened(name, kLongestName));
  }
  json.end_array();
  json.key("paints");
  json.begin_array();
  for (const page::Paint paint : table.paints) json.string(page::name_of(paint));
  json.end_array();
  for (const bool is_bytes : {true, false}) {
    json.key(is_bytes ? "bytes" : "counts");
    json.begin_array();
    const auto& values = is_bytes ? table.bands.bytes : table.bands.counts;
    for (std::size_t band = 0; band < table.bands.names.size(); ++band) {
      write_deltas(json, points, [&](std::size_t i) { return values[band * points + i]; });
    }
    json.end_array();
  }
  json.end_object();
}

// The inner lines of the rows in the table by line. Each refers to its row by number.
void write_inner_lines(JsonWriter& json, const DeviceView& view) {
  const BandTable* const by_line = view.table(model::Dimension::kLine);
  const tiles::Bands& bands = view.inside.bands;
  json.key("inside");
  json.begin_array();
  for (std::size_t band = 0; by_line != nullptr && band < bands.names.size(); ++band) {
    const auto& names = by_line->bands.names;
    const auto line = std::ranges::find(names, view.inside.lines[band]);
    if (line == names.end()) continue;
    json.begin_object();
    json.key("of");
    json.number(static_cast<std::uint64_t>(line - names.begin()));
    json.key("name");
    json.string(page::shortened(bands.names[band], kLongestName));
    json.key("package");
    json.boolean(view.inside.are_in_packages[band]);
    json.key("bytes");
    write_deltas(json, bands.points, [&](std::size_t i) { return bands.of(band)[i]; });
    json.end_object();
  }
  json.end_array();
}

std::string deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(text.data()), text.size(), Z_BEST_COMPRESSION);
  if (status != Z_OK) return {};
  out.resize(size);
  return out;
}

}  // namespace

void write_points(Markup& html, const DeviceView& view) {
  if (view.columns().empty() || view.tables.empty()) return;
  if (view.number >= kDevicesWithDetails) return;
  std::string text;
  JsonWriter json([&](std::string_view piece) {
    text += piece;
    return true;
  });
  json.begin_object();
  json.key("columns");
  json.number(static_cast<std::uint64_t>(view.columns().size()));
  json.key("chosen");
  json.number(static_cast<std::uint64_t>(view.chosen));
  write_marks(json, view);
  json.key("rest");
  json.string(tiles::kEverythingElse);
  write_where(json, view);
  json.key("tables");
  json.begin_array();
  for (const BandTable& table : view.tables) write_table(json, table);
  json.end_array();
  write_inner_lines(json, view);
  json.end_object();
  json.finish();
  const std::string packed = deflated(text);
  if (packed.empty()) return;
  html.open("script", {{"type", "application/octet-stream"}, {"data-points", ""}});
  html.raw(base64(packed)).close();
}

}  // namespace plimsoll::exporters::html
