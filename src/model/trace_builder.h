// TraceBuilder: the only way to build a model. Readers pass it what a file states, in any order;
// finish() sorts devices, pairs allocs with frees into lifetimes, matches them with the final
// blocks, decides whether the history is complete, and counts inconsistencies. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
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

  SiteTable& sites() { return trace_.sites; }

  // Appends an event of the device. Returns its row among the device's events.
  std::uint32_t add_event(Device device, const Event& event);
  // Like add_event() for an alloc, with what is known about it in hindsight. If a device uses this,
  // it must use it for all its allocs.
  std::uint32_t add_alloc(Device device, const Event& event, const Hindsight& hindsight);
  std::uint64_t event_count() const;
  std::uint64_t memory_bytes() const;

  // Direct access to the tables of a device for readers of many events. The device then counts as
  // named. The tables stay valid until finish().
  //
  // A reader that knows which free ends which allocation, or knows facts in hindsight, fills the
  // lifetimes as it goes: `alloc`, a row for each alloc event in order; the hindsight columns; and
  // `free_requested`, if it finally declares (pairs_known) that nothing was live before and that
  // each allocation is ended by one event. Otherwise frees are paired by address.
  Events& events(Device device) { return device_trace(device).events; }
  Lifetimes& lifetimes(Device device) { return device_trace(device).lifetimes; }
  void pairs_known(Device device) { with_pairs_.push_back(device); }
  // Declares that the file names this device, even if it has no events.
  void name_device(Device device) { device_trace(device); }
  // Moves everything added to `from` to `to`. Returns false if the file names both.
  bool rename_device(Device from, Device to);

  TensorId add_tensor(Tensor tensor);  // always a new row: the caller interns
  ShortageId add_shortage(const Shortage& shortage);
  void add_module(const Module& module) { trace_.modules.push_back(module); }
  ProgramSource& source() { return trace_.source; }
  // Its links and cuts have lower parents, and rows that exist.
  Holders& holders() { return trace_.holders; }
  // Placed between the last event added and the next, on every device.
  void add_mark(const Mark& mark);
  // Removes the step marks so far.
  void drop_steps();
  // For each mark of this kind so far, the number of the device's events before it.
  std::vector<std::uint32_t> marks_of(Device device, MarkKind kind);
  // Placed after the device's events so far.
  void add_reading(DeviceReading reading);

  void add_segment(const Segment& segment,
                   std::span<const Block> blocks);  // also declares that the final state is known
  void final_state_known() { trace_.has_final_state = true; }
  void add_oom_message(OomMessage message) { trace_.oom_messages.push_back(std::move(message)); }
  void segments_made_up() { trace_.has_made_up_segments = true; }
  // Declares that the file's final state does not include this device.
  void final_state_unknown(Device device) { without_final_state_.push_back(device); }
  // Declares that every event of the device states its block size, as padding.
  void blocks_reported(Device device) { device_trace(device).has_block_sizes = true; }
  // Declares that the recorder itself determined phases and categories.
  void attribution_known() { trace_.has_attribution = true; }
  void add_setting(Setting setting);
  void set_rank(std::int64_t rank) { trace_.rank = rank; }
  void set_world_size(std::int64_t ranks) {
    if (ranks > 0) trace_.world_size = ranks;
  }
  Program& program() { return trace_.program; }
  void settings_known() { trace_.has_settings = true; }
  void layer_calls_known() { trace_.has_layer_calls = true; }
  void uses_known() { trace_.has_uses = true; }
  void collections_known() { trace_.has_collections = true; }
  void set_started(std::int64_t time_ns) { trace_.started_ns = time_ns; }
  void native_lines_known() { trace_.has_native_lines = true; }
  void add_annotation(Annotation annotation) { trace_.annotations.push_back(annotation); }
  void set_before(Device device, std::uint64_t allocated_bytes, std::uint64_t reserved_bytes);
  void mark_truncated(Device device);  // the file itself states that its ring wrapped

  Result<Trace> finish(std::string_view format, base::Progress& progress);

 private:
  // A file may name as many streams and pools as it has events.
  struct IdHash {
    std::size_t operator()(std::uint64_t stream) const { return base::hash_u64(stream); }
    std::size_t operator()(const Pool& pool) const {
      return base::hash_mix(base::hash_u64(pool.first), ~base::hash_u64(pool.second));
    }
  };
  static constexpr std::uint64_t kIdBytes = 128;  // per stream or pool, in tables that are half
                                                  // full

  DeviceTrace& device_trace(Device device);
  void pair(DeviceTrace& device, base::Progress& progress);
  void sort_segments();
  void sort_annotations();

  base::Diagnostics& diagnostics_;
  Trace trace_;
  tsl::robin_map<std::uint64_t, StreamId, IdHash> stream_ids_;
  tsl::robin_map<Pool, PoolId, IdHash> pool_ids_;
  std::map<Device, DeviceTrace> devices_;  // until finish()
  std::uint64_t reading_bytes_ = 0;
  std::vector<Device> truncated_;
  std::vector<Device> without_final_state_;
  std::vector<Device> with_pairs_;
};

}  // namespace plimsoll::model
