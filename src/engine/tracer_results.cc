#include "plimsoll/tracer_results.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "base/json_writer.h"
#include "engine/session_state.h"
#include "exporters/words.h"
#include "plimsoll/session.h"

namespace plimsoll {

struct TracerResults::State {
  Session session;
  Report report;
  report::DeviceReport device;  // empty if the recording has none
  std::vector<MemoryEvent> events = {};
  std::map<std::string, LayerMemoryStats> layers = {};
};

namespace {

constexpr std::size_t kAllRows = SIZE_MAX / 2;

// ---- reading the table `timeline` ----

// One column of a batch, by its name.
class Cells {
 public:
  Cells(const Table& table, const Batch& batch, std::string_view name) {
    for (std::size_t i = 0; i < table.fields.size(); ++i) {
      if (table.fields[i].name != name) continue;
      field_ = &table.fields[i];
      column_ = &batch.columns[i];
    }
  }

  bool is_null(std::size_t row) const {
    if (column_ == nullptr) return true;
    return column_->validity != nullptr && (column_->validity[row / 8] >> (row % 8) & 1) == 0;
  }
  std::uint64_t number(std::size_t row) const {
    if (is_null(row)) return 0;
    switch (field_->type) {
      case ColumnType::kUint8:
        return static_cast<const std::uint8_t*>(column_->values)[row];
      case ColumnType::kUint32:
        return static_cast<const std::uint32_t*>(column_->values)[row];
      default:
        return static_cast<const std::uint64_t*>(column_->values)[row];
    }
  }
  std::optional<std::string> text(std::size_t row) const {
    if (is_null(row) || field_->dictionary == nullptr) return std::nullopt;
    return std::string((*field_->dictionary)[number(row)]);
  }

 private:
  const Field* field_ = nullptr;
  const Column* column_ = nullptr;
};

double ratio_of(std::uint64_t allocated, std::uint64_t reserved) {
  if (reserved <= allocated) return 0;
  return static_cast<double>(reserved - allocated) / static_cast<double>(reserved);
}

void read_events(const Table& timeline, const std::string& device, std::vector<MemoryEvent>& to) {
  std::optional<std::int64_t> began_ns;
  for (const Batch& batch : timeline.batches) {
    const auto cells = [&](std::string_view name) { return Cells(timeline, batch, name); };
    const Cells devices = cells("device"), types = cells("event_type"), times = cells("time_ns"),
                sizes = cells("size_bytes"), layers = cells("layer"),
                allocated = cells("allocated_bytes"), reserved = cells("reserved_bytes"),
                addresses = cells("address"), operators = cells("operator"),
                phases = cells("phase"), categories = cells("category");
    for (std::size_t row = 0; row < batch.rows; ++row) {
      if (!times.is_null(row)) {
        const auto time_ns = static_cast<std::int64_t>(times.number(row));
        began_ns = std::min(began_ns.value_or(time_ns), time_ns);
      }
      if (devices.text(row) != device) continue;
      MemoryEvent& event = to.emplace_back();
      event.event_type = types.text(row).value_or("");
      event.size_bytes = sizes.number(row);
      event.layer_name = layers.text(row);
      event.allocated_bytes = allocated.number(row);
      event.reserved_bytes = reserved.number(row);
      event.fragmentation_ratio = ratio_of(event.allocated_bytes, event.reserved_bytes);
      event.time_ns = times.is_null(row) ? -1 : static_cast<std::int64_t>(times.number(row));
      if (!addresses.is_null(row)) event.address = addresses.number(row);
      event.op = operators.text(row);
      event.phase = phases.text(row);
      event.category = categories.text(row);
    }
  }
  for (MemoryEvent& event : to) {
    if (event.time_ns < 0) event.time_ns = began_ns.value_or(0);
    event.timestamp = static_cast<double>(event.time_ns - began_ns.value_or(0)) / 1e9;
  }
}

// ---- layers ----

LayerMemoryStats stats_of(const report::LayerRow& row, const std::string& name) {
  const report::LayerCalls calls = row.calls.value_or(report::LayerCalls{});
  return {.layer_name = name,
          .peak_allocated = row.inclusive.peak_bytes,
          .peak_reserved = calls.peak_reserved_bytes,
          .total_allocations = calls.allocations,
          .total_deallocations = calls.frees,
          .avg_fragmentation = calls.fragmentation_ratio,
          .duration_ms = static_cast<double>(calls.duration_ns) / 1e6,
          .calls = calls.calls,
          .forward_bytes = row.own.forward_bytes,
          .backward_bytes = row.own.backward_bytes,
          .optimizer_bytes = row.own.optimizer_bytes,
          .other_bytes = row.own.other_bytes,
          .live_bytes = row.own.bytes,
          .parameter_bytes = row.own.parameter_bytes,
          .gradient_bytes = row.own.gradient_bytes,
          .optimizer_state_bytes = row.own.optimizer_state_bytes,
          .activation_bytes = row.own.activation_bytes,
          .saved_bytes = row.own.saved_bytes,
          .peak_bytes = row.own.peak_bytes};
}

// If the name is empty: the first GPU, or the CPU.
const report::DeviceReport* find_device(const report::Report& report, const std::string& name) {
  const report::DeviceReport* found = nullptr;
  for (const report::DeviceReport& device : report.devices) {
    if (!exporters::is_asked_for(device, name == "cuda" ? "cuda:0" : name)) continue;
    const bool is_better = found != nullptr && found->device < 0 && device.device > found->device;
    if (found == nullptr || is_better) found = &device;
  }
  return found;
}

// ---- JSON ----

void write(base::JsonWriter& json, const std::optional<std::string>& text) {
  text ? json.string(*text) : json.null();
}

void write(base::JsonWriter& json, const MemoryEvent& event) {
  json.begin_object();
  json.key("timestamp"), json.number(event.timestamp);
  json.key("event_type"), json.string(event.event_type);
  json.key("size_bytes"), json.number(event.size_bytes);
  json.key("layer_name"), write(json, event.layer_name);
  json.key("allocated_bytes"), json.number(event.allocated_bytes);
  json.key("reserved_bytes"), json.number(event.reserved_bytes);
  json.key("fragmentation_ratio"), json.number(event.fragmentation_ratio);
  json.key("time_ns"), json.number(event.time_ns);
  json.key("address"), event.address ? json.number(*event.address) : json.null();
  json.key("operator"), write(json, event.op);
  json.key("phase"), write(json, event.phase);
  json.key("category"), write(json, event.category);
  json.end_object();
}

void write(base::JsonWriter& json, const LayerMemoryStats& stats) {
  json.begin_object();
  json.key("layer_name"), json.string(stats.layer_name);
  json.key("peak_allocated"), json.number(stats.peak_allocated);
  json.key("peak_reserved"), json.number(stats.peak_reserved);
  json.key("total_allocations"), json.number(stats.total_allocations);
  json.key("total_deallocations"), json.number(stats.total_deallocations);
  json.key("avg_fragmentation"), json.number(stats.avg_fragmentation);
  json.key("duration_ms"), json.number(stats.duration_ms);
  json.key("calls"), json.number(stats.calls);
  for (const auto& [name, bytes] : {
           std::pair{"forward_bytes", stats.forward_bytes},
           {"backward_bytes", stats.backward_bytes},
           {"optimizer_bytes", stats.optimizer_bytes},
           {"other_bytes", stats.other_bytes},
           {"live_bytes", stats.live_bytes},
           {"parameter_bytes", stats.parameter_bytes},
           {"gradient_bytes", stats.gradient_bytes},
           {"optimizer_state_bytes", stats.optimizer_state_bytes},
           {"activation_bytes", stats.activation_bytes},
           {"saved_bytes", stats.saved_bytes},
           {"peak_bytes", stats.peak_bytes},
       }) {
    json.key(name), json.number(bytes);
  }
  json.end_object();
}

// Calls `write` with a sink that writes to the file.
template <typename Write>
Status write_file(const std::string& path, Write&& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  const auto sink = [&](std::string_view text) {
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    return file.good();
  };
  Status written = file ? write(sink) : Status{};
  file.close();
  if (file) return written;
  return make_error(ErrorCode::kIo, path + ": cannot be written: " + std::strerror(errno));
}

Question all_rows() {
  Question question;
  question.top = kAllRows;
  return question;
}

}  // namespace

Result<TracerResults> TracerResults::of(Session session, const std::string& name) {
  PLIMSOLL_TRY_ASSIGN(Report report, session.ask(all_rows()));
  const report::DeviceReport* device = find_device(report.value(), name);
  if (device == nullptr && !name.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "the recording has no device " + name);
  }
  const auto timeline = session.table("timeline");
  if (!timeline) return timeline.error();
  auto state = std::make_shared<State>(
      State{std::move(session), report, device != nullptr ? *device : report::DeviceReport{}});
  if (device == nullptr) return TracerResults(std::move(state));
  read_events(*timeline, exporters::device_name(*device), state->events);
  for (const report::LayerRow& row : state->report.value().tables.layers) {
    if (row.device != state->device.device) continue;
    const std::string layer = row.layer.empty() ? kNoLayer : row.layer;
    state->layers.emplace(layer, stats_of(row, layer));
  }
  return TracerResults(std::move(state));
}

Result<TracerResults> TracerResults::read(const std::string& path, const std::string& device) {
  auto session = Session::open(path);
  if (!session) return session.error();
  return of(std::move(*session), device);
}

Result<TracerResults> TracerResults::read_memory(std::span<const std::byte> recording,
                                                 const std::string& device) {
  auto session = Session::open_memory(recording, "[memory]");
  if (!session) return session.error();
  return of(std::move(*session), device);
}

const std::vector<MemoryEvent>& TracerResults::events() const { return state_->events; }

const std::map<std::string, LayerMemoryStats>& TracerResults::get_layer_stats() const {
  return state_->layers;
}

std::map<std::string, std::uint64_t> TracerResults::get_peak_memory_per_layer() const {
  std::map<std::string, std::uint64_t> peaks;
  for (const auto& [layer, stats] : state_->layers) peaks[layer] = stats.peak_allocated;
  return peaks;
}

std::map<std::string, double> TracerResults::get_fragmentation_stats() const {
  std::map<std::string, double> ratios;
  for (const auto& [layer, stats] : state_->layers) ratios[layer] = stats.avg_fragmentation;
  return ratios;
}

Status TracerResults::export_flame_graph(const std::string& output_path) const {
  return write_file(output_path, [this](const auto& sink) {
    return state_->session.export_to("speedscope", sink, all_rows());
  });
}

Status TracerResults::export_timeline(const std::string& output_path) const {
  return write_file(output_path, [this](const auto& sink) -> Status {
    base::JsonWriter json(sink);
    json.begin_object();
    json.key("events");
    json.begin_array();
    for (const MemoryEvent& event : state_->events) write(json, event);
    json.end_array();
    json.key("layer_stats");
    json.begin_object();
    for (const auto& [layer, stats] : state_->layers) json.key(layer), write(json, stats);
    json.end_object();
    json.key("summary");
    base::write_json(json, state_->device);
    json.end_object();
    json.finish();
    return {};
  });
}

std::string TracerResults::summary(std::size_t top) const {
  TextOptions options;
  options.top = top;
  const auto text = state_->report.text(options);
  return text ? *text : text.error().message + "\n";
}

void TracerResults::print_summary(std::size_t top) const {
  const std::string text = summary(top);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace plimsoll
