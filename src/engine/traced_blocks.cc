// Sums layers and events over the recordings of a tracer's blocks.
#include "engine/traced_blocks.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "exporters/labels.h"
#include "plimsoll/session.h"
#include "plimsoll/tracer_results.h"

namespace plimsoll {
namespace {

using Identifiers = std::unordered_map<std::string, std::uint32_t>;

// One column of a batch, by its name.
class TimelineColumn {
 public:
  TimelineColumn(const Table& table, const Batch& batch, std::string_view name) {
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
  std::string_view text(std::size_t row) const {
    if (is_null(row) || field_->dictionary == nullptr) return {};
    return (*field_->dictionary)[number(row)];
  }

 private:
  const Field* field_ = nullptr;
  const Column* column_ = nullptr;
};

// A text column whose values become indices in the names of TracedEvents.
class NameColumn {
 public:
  NameColumn(const Table& table, const Batch& batch, std::string_view name,
             std::vector<std::string>& names, Identifiers& identifiers)
      : column_(table, batch, name), names_(names), identifiers_(identifiers) {}

  std::uint32_t operator[](std::size_t row) {
    if (column_.is_null(row)) return 0;
    const std::uint64_t entry = column_.number(row);
    const auto [known, is_new] = translated_.try_emplace(entry, 0);
    if (is_new) known->second = identifier_of(std::string(column_.text(row)));
    return known->second;
  }

 private:
  std::uint32_t identifier_of(const std::string& name) {
    const auto next = static_cast<std::uint32_t>(names_.size());
    const auto [known, is_new] = identifiers_.try_emplace(name, next);
    if (is_new) names_.push_back(name);
    return known->second;
  }

  TimelineColumn column_;
  std::vector<std::string>& names_;
  Identifiers& identifiers_;
  std::unordered_map<std::uint64_t, std::uint32_t> translated_;
};

double ratio_of(std::uint64_t allocated, std::uint64_t reserved) {
  if (reserved <= allocated) return 0;
  return static_cast<double>(reserved - allocated) / static_cast<double>(reserved);
}

// The time of the earliest row that has one, on any device.
std::optional<std::int64_t> begin_of(const Table& timeline) {
  std::optional<std::int64_t> began_ns;
  for (const Batch& batch : timeline.batches) {
    const TimelineColumn times(timeline, batch, "time_ns");
    for (std::size_t row = 0; row < batch.rows; ++row) {
      if (times.is_null(row)) continue;
      const auto time_ns = static_cast<std::int64_t>(times.number(row));
      began_ns = std::min(began_ns.value_or(time_ns), time_ns);
    }
  }
  return began_ns;
}

LayerMemoryStats stats_of(const report::LayerRow& row) {
  const report::LayerCalls calls = row.calls.value_or(report::LayerCalls{});
  return {.layer_name = row.layer,
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

// The sums are over both; the bytes are those of the block with the higher peak.
LayerMemoryStats combined(const LayerMemoryStats& all, const LayerMemoryStats& block) {
  LayerMemoryStats result = block.peak_allocated >= all.peak_allocated ? block : all;
  result.peak_reserved = std::max(all.peak_reserved, block.peak_reserved);
  result.total_allocations = all.total_allocations + block.total_allocations;
  result.total_deallocations = all.total_deallocations + block.total_deallocations;
  result.duration_ms = all.duration_ms + block.duration_ms;
  result.calls = all.calls + block.calls;
  return result;
}

}  // namespace

namespace engine {

const report::DeviceReport* traced_device(const report::Report& report, const std::string& name) {
  const report::DeviceReport* found = nullptr;
  for (const report::DeviceReport& device : report.devices) {
    if (!exporters::is_asked_for(device, name == "cuda" ? "cuda:0" : name)) continue;
    const bool is_better = found != nullptr && found->device < 0 && device.device > found->device;
    if (found == nullptr || is_better) found = &device;
  }
  return found;
}

}  // namespace engine

MemoryEvent TracedEvents::operator[](std::size_t row) const {
  const Row& from = rows_[row];
  const auto name = [&](std::uint32_t index) {
    return index == 0 ? std::nullopt : std::optional(names_[index]);
  };
  return {.timestamp = static_cast<double>(from.time_ns - began_ns_) / 1e9,
          .event_type = names_[from.event_type],
          .size_bytes = from.size_bytes,
          .layer_name = name(from.layer),
          .allocated_bytes = from.allocated_bytes,
          .reserved_bytes = from.reserved_bytes,
          .fragmentation_ratio = ratio_of(from.allocated_bytes, from.reserved_bytes),
          .time_ns = from.time_ns,
          .address = from.address == 0 ? std::nullopt : std::optional(from.address),
          .op = name(from.op),
          .phase = name(from.phase),
          .category = name(from.category)};
}

TracedBlocks::TracedBlocks(std::string device, std::size_t max_events)
    : device_(std::move(device)),
      max_events_(max_events),
      events_(std::make_shared<TracedEvents>()) {}

Status TracedBlocks::add(const Session& block, const Report& report) {
  PLIMSOLL_TRY_ASSIGN(const Table timeline, block.table("timeline"));
  const std::optional<std::int64_t> began_ns = begin_of(timeline);
  if (!began_ns_) began_ns_ = began_ns;
  const report::DeviceReport* device = engine::traced_device(report.value(), device_);
  if (device == nullptr) return {};

  if (events_.use_count() > 1) events_ = std::make_shared<TracedEvents>(*events_);
  TracedEvents* const events = events_.get();
  events->began_ns_ = began_ns_.value_or(0);
  const std::string device_name = exporters::device_name(*device);
  Identifiers identifiers;
  for (std::uint32_t i = 0; i < events->names_.size(); ++i) identifiers[events->names_[i]] = i;
  for (const Batch& batch : timeline.batches) {
    const auto column = [&](const char* name) { return TimelineColumn(timeline, batch, name); };
    const auto names = [&](const char* name) {
      return NameColumn(timeline, batch, name, events->names_, identifiers);
    };
    const TimelineColumn devices = column("device"), times = column("time_ns"),
                         sizes = column("size_bytes"), allocated = column("allocated_bytes"),
                         reserved = column("reserved_bytes"), addresses = column("address");
    NameColumn types = names("event_type"), layers = names("layer"), operators = names("operator"),
               phases = names("phase"), categories = names("category");
    for (std::size_t row = 0; row < batch.rows; ++row) {
      if (devices.text(row) != device_name) continue;
      const auto time_ns =
          times.is_null(row) ? began_ns.value_or(0) : static_cast<std::int64_t>(times.number(row));
      events->rows_.push_back({time_ns, sizes.number(row), allocated.number(row),
                               reserved.number(row), addresses.number(row), types[row], layers[row],
                               operators[row], phases[row], categories[row]});
    }
  }
  if (events->rows_.size() > max_events_) {
    auto& rows = events->rows_;
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(max_events_));
  }

  for (const report::LayerRow& row : report.value().tables.layers) {
    if (row.device != device->device) continue;
    const report::LayerCalls calls = row.calls.value_or(report::LayerCalls{});
    const auto [known, is_new] = layers_.try_emplace(row.layer, Layer{.stats = stats_of(row)});
    Layer& layer = known->second;
    if (!is_new) layer.stats = combined(layer.stats, stats_of(row));
    layer.ratios += calls.fragmentation_ratio * static_cast<double>(calls.rows);
    layer.rows += calls.rows;
  }
  return {};
}

std::vector<LayerMemoryStats> TracedBlocks::layers() const {
  std::vector<LayerMemoryStats> all;
  for (const auto& [name, layer] : layers_) {
    all.push_back(layer.stats);
    all.back().avg_fragmentation =
        layer.rows == 0 ? 0 : layer.ratios / static_cast<double>(layer.rows);
  }
  return all;
}

}  // namespace plimsoll
