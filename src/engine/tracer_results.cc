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
#include "engine/traced_blocks.h"
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
  const report::DeviceReport* device = engine::traced_device(report.value(), name);
  if (device == nullptr && !name.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "the recording has no device " + name);
  }
  auto state = std::make_shared<State>(
      State{std::move(session), report, device != nullptr ? *device : report::DeviceReport{}});
  TracedBlocks blocks(name, SIZE_MAX);
  PLIMSOLL_TRY(blocks.add(state->session, state->report));
  const auto events = blocks.events();
  state->events.reserve(events->size());
  for (std::size_t i = 0; i < events->size(); ++i) state->events.push_back((*events)[i]);
  for (LayerMemoryStats& stats : blocks.layers()) {
    if (stats.layer_name.empty()) stats.layer_name = kNoLayer;
    state->layers.emplace(stats.layer_name, stats);
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
