// The results of a MemoryTracer: events and layer statistics of a recording, as in Python. Sizes
// are bytes. Link plimsoll::engine.
//
//   auto results = plimsoll::TracerResults::read("train.plim");
//   if (!results) return complain(results.error().message);
//   for (const auto& [layer, stats] : results->get_layer_stats()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll {

class Report;
class Session;

// The key of TracerResults::get_layer_stats() for memory that belongs to no layer.
inline constexpr const char* kNoLayer = "[no layer]";

// One layer. The first seven fields include the layers inside it; the others describe the layer
// alone.
struct LayerMemoryStats {
  std::string layer_name;
  std::uint64_t peak_allocated = 0;     // peak of the bytes that belong to it
  std::uint64_t peak_reserved = 0;      // of the device's allocator while it ran; CPU: allocated
  std::uint64_t total_allocations = 0;  // in every phase
  std::uint64_t total_deallocations = 0;
  double avg_fragmentation = 0;      // mean of MemoryEvent::fragmentation_ratio, 0 to 1
  double duration_ms = 0;            // wall time of its calls; nested calls count once
  std::uint64_t calls = 0;           // of PLIMSOLL_LAYER, or of operators (docs/cpp.md, "Results")
  std::uint64_t forward_bytes = 0;   // this and the next three: at the device's peak; they sum to
  std::uint64_t backward_bytes = 0;  // live_bytes
  std::uint64_t optimizer_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t optimizer_state_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t saved_bytes = 0;  // activations saved for backward, at their largest
  std::uint64_t peak_bytes = 0;   // peak of the bytes of the layer alone
};

// An event on the device, and the device's totals after it.
struct MemoryEvent {
  double timestamp = 0;    // seconds since the first event
  std::string event_type;  // "alloc", "free", "snapshot", "layer_enter", "layer_exit"
  std::uint64_t size_bytes = 0;
  std::optional<std::string> layer_name;  // the layer that owns the memory, or is called
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  double fragmentation_ratio = 0;  // (reserved - allocated) / reserved; 0: nothing is reserved
  std::int64_t time_ns = 0;        // as recorded
  std::optional<std::uint64_t> address;
  std::optional<std::string> op;  // the operator that allocated it
  std::optional<std::string> phase;
  std::optional<std::string> category;
};

// Events of one device. Immutable; any number of threads may read it.
class TracedEvents {
 public:
  std::size_t size() const { return rows_.size(); }
  MemoryEvent operator[](std::size_t row) const;  // row < size()

 private:
  friend class TracedBlocks;
  struct Row {
    std::int64_t time_ns = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t reserved_bytes = 0;
    std::uint64_t address = 0;     // 0: none
    std::uint32_t event_type = 0;  // this and the others: index in names_
    std::uint32_t layer = 0;
    std::uint32_t op = 0;
    std::uint32_t phase = 0;
    std::uint32_t category = 0;
  };
  std::int64_t began_ns_ = 0;
  std::vector<std::string> names_ = {""};  // names_[0]: none
  std::deque<Row> rows_;                   // grows and is cut without copies
};

// Sums the recordings of a tracer's blocks: the layers over all blocks, and the newest events.
// One thread at a time; what events() returned stays as it is.
class TracedBlocks {
 public:
  // `device` as in TracerResults::read().
  TracedBlocks(std::string device, std::size_t max_events);
  // `report` must have been asked for all rows of `block`. Without events of the device, nothing is
  // added.
  Status add(const Session& block, const Report& report);

  std::shared_ptr<const TracedEvents> events() const { return events_; }
  // The layers, in no particular order. An empty name: memory that belongs to no layer.
  std::vector<LayerMemoryStats> layers() const;

 private:
  struct Layer {
    LayerMemoryStats stats;  // bytes of the block in which it had the most
    double ratios = 0;       // sum of the fragmentation ratios of `rows` rows
    std::uint64_t rows = 0;
  };
  std::string device_;
  std::size_t max_events_;
  std::map<std::string, Layer> layers_;
  std::optional<std::int64_t> began_ns_;  // of the first block
  std::shared_ptr<TracedEvents> events_;  // copied before a change if events() was called
};

// The results of one device. Immutable; any number of threads may read it.
class TracerResults {
 public:
  // Without a device, reads the first CUDA device of the recording, or the CPU. Fails if the file
  // cannot be read, or has no such device.
  static Result<TracerResults> read(const std::string& path, const std::string& device = "");
  static Result<TracerResults> read_memory(std::span<const std::byte> recording,
                                           const std::string& device = "");

  const std::vector<MemoryEvent>& events() const;
  const std::map<std::string, LayerMemoryStats>& get_layer_stats() const;
  std::map<std::string, std::uint64_t> get_peak_memory_per_layer() const;
  std::map<std::string, double> get_fragmentation_stats() const;
  // Writes a file for https://www.speedscope.app.
  Status export_flame_graph(const std::string& output_path) const;
  // Writes JSON: events, layer_stats by name, summary.
  Status export_timeline(const std::string& output_path) const;
  // The report as text: findings, then memory by layer and category.
  std::string summary(std::size_t top = 10) const;
  void print_summary(std::size_t top = 10) const;  // to standard output

 private:
  struct State;
  explicit TracerResults(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Result<TracerResults> of(Session session, const std::string& device);
  std::shared_ptr<const State> state_;
};

}  // namespace plimsoll
