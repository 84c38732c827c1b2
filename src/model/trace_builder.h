// TraceBuilder: the only door into the model. Readers tell it what a file says, in any order;
// finish() sorts devices, pairs allocs with frees into lifetimes, matches them with the final
// blocks, decides whether history is complete, and counts what does not fit. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <tsl/robin_map.h>

#include "base/diagnostics.h"
#include "base/hash.h"
#include "base/progress.h"
#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::model {

class TraceBuilder {
 public:
  explicit TraceBuilder(base::Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    stream(0);
    trace_.pools.push_back(Pool{});
    trace_.tensors.push_back(Tensor{});
    trace_.shortages.push_back(Shortage{});
  }

  StringTable& strings() { return trace_.strings; }
  StackTable& stacks() { return trace_.stacks; }
  StreamId stream(std::uint64_t handle);
  PoolId pool(Pool pool);

  // Adds an event and returns its row. It belongs to no device until place() says so.
  std::uint64_t add_event(const Event& event) {
    trace_.events.push_back(event);
    return trace_.events.size() - 1;
  }
  std::uint64_t event_count() const { return trace_.events.size(); }
  std::uint64_t memory_bytes() const {
    return trace_.events.memory_bytes() + trace_.stacks.memory_bytes() +
           trace_.segments.memory_bytes() + trace_.blocks.memory_bytes() +
           slices_.capacity() * sizeof(Slice) + pairs_.alloc.memory_bytes() +
           pairs_.free_requested.memory_bytes() +
           (trace_.streams.size() + trace_.pools.size()) * kIdBytes + look_bytes_;
  }
  Event event(std::uint64_t row) const { return trace_.events.at(row); }
  // For what is known with hindsight only: the columns of an event that was added already.
  Events& events() { return trace_.events; }
  TensorId add_tensor(Tensor tensor);  // always a new row: intern before
  ShortageId add_shortage(const Shortage& shortage);
  // Between the last event added and the next, on every device.
  void add_mark(const Mark& mark);
  // Marks of steps so far are taken back.
  void drop_steps();
  // Where it comes among the device's events: now.
  void add_look(DeviceLook look);
  // Rows [first, first + count) are the next events of `device`. Each row at most once.
  void place(Device device, std::uint64_t first, std::uint64_t count);
  // For a reader whose file says which free ends which allocation: rows of allocs in order of birth
  // (`alloc`) and of their frees (`free_requested`). It fills them as it goes, and says in the end
  // whether every alloc and free is among them and nothing was live before; without that, or on
  // several devices, frees are paired by address.
  Lifetimes& pairs() { return pairs_; }
  void pairs_known() { has_pairs_ = true; }
  // The file names this device, perhaps with nothing on it.
  void name_device(Device device);

  void add_segment(const Segment& segment,
                   std::span<const Block> blocks);  // also means: the final state is known
  void final_state_known() { trace_.has_final_state = true; }
  // The final state that the file tells is not that of this device.
  void final_state_unknown(Device device) { without_final_state_.push_back(device); }
  // Each event of the device tells its block's size, as slack.
  void blocks_told(Device device) { device_trace(device).tells_blocks = true; }
  void add_setting(Setting setting);
  void set_rank(std::int64_t rank) { trace_.rank = rank; }
  Program& program() { return trace_.program; }
  void settings_known() { trace_.has_settings = true; }
  void layer_calls_known() { trace_.has_layer_calls = true; }
  void set_started(std::int64_t time_ns) { trace_.started_ns = time_ns; }
  void native_lines_known() { trace_.has_native_lines = true; }
  void add_annotation(Annotation annotation) { trace_.annotations.push_back(annotation); }
  void set_before(Device device, std::uint64_t allocated_bytes, std::uint64_t reserved_bytes);
  void mark_truncated(Device device);  // the file itself says that its ring wrapped

  Result<Trace> finish(std::string_view format, base::Progress& progress);

 private:
  struct Slice {
    Device device;
    std::uint64_t first;
    std::uint64_t count;
  };

  // A file may name as many streams and pools as it has events.
  struct IdHash {
    std::size_t operator()(std::uint64_t stream) const { return base::hash_u64(stream); }
    std::size_t operator()(const Pool& pool) const {
      return base::hash_mix(base::hash_u64(pool.first), ~base::hash_u64(pool.second));
    }
  };
  static constexpr std::uint64_t kIdBytes = 128;  // of a stream or pool, in tables half full

  class EventsBefore;

  DeviceTrace& device_trace(Device device);
  bool take_pairs(DeviceTrace& device);
  Status gather_slices();
  void place_marks();
  void place_looks();
  void sort_segments();
  void sort_annotations();

  base::Diagnostics& diagnostics_;
  Trace trace_;
  tsl::robin_map<std::uint64_t, StreamId, IdHash> stream_ids_;
  tsl::robin_map<Pool, PoolId, IdHash> pool_ids_;
  std::vector<Slice> slices_;
  std::vector<std::uint64_t> mark_rows_;  // by mark: how many events had been added
  std::vector<std::uint64_t> look_rows_;  // the same by look
  std::uint64_t look_bytes_ = 0;
  std::vector<Device> truncated_;
  std::vector<Device> without_final_state_;
  Lifetimes pairs_;
  bool has_pairs_ = false;
};

}  // namespace plimsoll::model
