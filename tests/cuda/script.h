// A scripted run of a program on CUDA devices. It is reported twice: to the recorder through its C
// interface, like an adapter, and as the snapshot that torch would have dumped. Each device has the
// tests' model allocator, whose block lists are the expected result.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator_settings.h"
#include "model_allocator.h"
#include "plimsoll/recorder_c.h"
#include "shadow_heap.h"
#include "tests/cuda/pickle.h"

namespace plimsoll::tests {

using libtorch_cuda::BlockState;
using libtorch_cuda::HeapPool;
using libtorch_cuda::HeapSettings;
using libtorch_cuda::ModelAllocator;
using libtorch_cuda::ModelEvent;
using libtorch_cuda::SeenSetting;
using libtorch_cuda::ShadowHeap;

// The totals of a device's model.
struct Bytes {
  std::uint64_t requested = 0, requested_active = 0, allocated = 0, active = 0, reserved = 0;
  bool operator==(const Bytes&) const = default;
};

class ScriptedDevice {
 public:
  ScriptedDevice(std::int32_t ordinal, HeapSettings settings)
      : ordinal_(ordinal),
        id_(api().device(PLIMSOLL_DEVICE_CUDA, ordinal)),
        heap_(settings),
        model_(settings, [this](const ModelEvent& event) { emit(event); }) {}

  // Allocates at line `line` of train.py.
  std::uint64_t alloc(std::uint64_t bytes, std::uint32_t line, std::uint64_t stream = 0,
                      HeapPool pool = {}) {
    enter(line);
    const std::uint64_t address = model_.alloc(bytes, stream, pool);
    lines_[address] = line;
    api().context()->stack = 0;
    return address;
  }
  void request_free(std::uint64_t address) { model_.request_free(address); }
  void complete_free(std::uint64_t address) { model_.complete_free(address); }
  void free(std::uint64_t address) {
    request_free(address);
    complete_free(address);
  }
  void empty_cache() { model_.empty_cache(); }
  void run_out(std::uint64_t bytes, std::uint32_t line, std::uint64_t device_free,
               std::uint64_t limit = 0, std::uint64_t total = 0) {
    enter(line);
    const plimsoll_block request{0, bytes, 0, 0, 0, 0};
    api().out_of_memory(api().context(), id_, &request, device_free, limit, total);
    events_.push_back(pickle::dict({{"action", pickle::text("oom")},
                                    {"device_free", pickle::integer(device_free)},
                                    {"size", pickle::integer(bytes)},
                                    {"stream", pickle::integer(0)},
                                    {"frames", frames(line)},
                                    {"time_us", pickle::integer(++time_us_)}}));
    api().context()->stack = 0;
  }

  Bytes held() const {
    Bytes bytes;
    for (const auto& segment : model_.segments) {
      for (const auto& block : segment.blocks) {
        bytes.reserved += block.size;
        if (block.state == BlockState::kInactive) continue;
        bytes.active += block.size;
        bytes.requested_active += block.requested;
        if (block.state != BlockState::kAllocated) continue;
        bytes.allocated += block.size;
        bytes.requested += block.requested;
      }
    }
    return bytes;
  }
  // The totals after each event, from the slow reference.
  const std::vector<Bytes>& history() const { return history_; }
  std::uint64_t misfits() const { return heap_.unexplained(); }

  std::string trace() const { return pickle::list(events_); }
  void append_segments(std::vector<std::string>& all) const {
    for (const auto& segment : model_.segments) all.push_back(dict_of(segment));
  }

 private:
  static const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }
  static std::uint32_t name(const std::string& text) {
    return api().name(text.data(), text.size());
  }
  static std::uint32_t pool_name(const HeapPool& pool) {
    if (pool == HeapPool{}) return 0;
    return name(std::to_string(pool.first) + "." + std::to_string(pool.second));
  }
  void enter(std::uint32_t line) {
    line_ = line;
    const plimsoll_frame frame{name("train.py"), name("step"), line};
    api().context()->stack = api().stack(&frame, 1);
  }
  static std::string frames(std::uint32_t line) {
    return pickle::list({pickle::dict({{"filename", pickle::text("train.py")},
                                       {"name", pickle::text("step")},
                                       {"line", pickle::integer(line)}})});
  }

  // As in the CUDA adapter, the shadow heap knows the block.
  void record(const ModelEvent& event) {
    plimsoll_context* const context = api().context();
    switch (event.what) {
      case ModelEvent::What::kAlloc: {
        const std::uint64_t size = heap_.alloc(event.address, event.bytes, event.stream);
        const plimsoll_block block{event.address, event.bytes,           size,
                                   event.stream,  pool_name(event.pool), 0};
        api().alloc_block(context, id_, &block);
        return;
      }
      case ModelEvent::What::kFreeRequested:
        heap_.free_requested(event.address);
        api().free_requested(context, id_, event.address);
        return;
      case ModelEvent::What::kFreeCompleted:
        heap_.free_completed(event.address);
        api().free_completed(context, id_, event.address);
        return;
      case ModelEvent::What::kSegment:
        heap_.segment(event.action, event.address, event.bytes, event.stream, event.pool);
        api().segment(context, id_, event.action, event.address, event.bytes, event.stream,
                      pool_name(event.pool));
        return;
    }
  }

  void emit(const ModelEvent& event) {
    static constexpr const char* kSegmentWords[] = {"segment_alloc", "segment_free", "segment_map",
                                                    "segment_unmap"};
    const char* word = "alloc";
    if (event.what == ModelEvent::What::kFreeRequested) word = "free_requested";
    if (event.what == ModelEvent::What::kFreeCompleted) word = "free_completed";
    if (event.what == ModelEvent::What::kSegment) word = kSegmentWords[event.action];
    if (event.what == ModelEvent::What::kAlloc)
      streams_[event.address] = {event.stream, event.pool};
    const bool is_free = event.what == ModelEvent::What::kFreeRequested ||
                         event.what == ModelEvent::What::kFreeCompleted;
    const auto [stream, pool] =
        is_free ? streams_[event.address] : std::pair(event.stream, event.pool);
    pickle::Items items = {{"action", pickle::text(word)},
                           {"addr", pickle::integer(event.address)},
                           {"size", pickle::integer(event.bytes)},
                           {"stream", pickle::integer(stream)},
                           {"pool_id", pickle::pair(pool.first, pool.second)},
                           {"time_us", pickle::integer(++time_us_)}};
    if (!is_free) items.emplace_back("frames", frames(line_));
    events_.push_back(pickle::dict(items));
    record(event);
    apply(event);
  }

  // The slow reference: sums after each event, computed from the events and the model's sizes.
  void apply(const ModelEvent& event) {
    Bytes now = history_.empty() ? Bytes{} : history_.back();
    if (event.what == ModelEvent::What::kSegment) {
      const bool takes =
          event.action == PLIMSOLL_SEGMENT_ALLOC || event.action == PLIMSOLL_SEGMENT_MAP;
      now.reserved += takes ? event.bytes : 0 - event.bytes;
    } else if (event.what == ModelEvent::What::kAlloc) {
      now.requested += event.bytes;
      now.requested_active += event.bytes;
    } else if (event.what == ModelEvent::What::kFreeRequested) {
      now.requested -= event.bytes;
    } else {
      now.requested_active -= event.bytes;
    }
    now.allocated = held().allocated;
    history_.push_back(now);
  }

  std::string dict_of(const libtorch_cuda::ModelSegment& segment) const {
    std::vector<std::string> blocks;
    std::uint64_t total = 0, allocated = 0, active = 0, requested = 0;
    for (const auto& block : segment.blocks) {
      const bool is_active = block.state != BlockState::kInactive;
      total += block.size;
      active += is_active ? block.size : 0;
      requested += is_active ? block.requested : 0;
      allocated += block.state == BlockState::kAllocated ? block.size : 0;
      const char* state = block.state == BlockState::kAllocated ? "active_allocated"
                          : is_active                           ? "active_pending_free"
                                                                : "inactive";
      blocks.push_back(pickle::dict(
          {{"address", pickle::integer(block.address)},
           {"size", pickle::integer(block.size)},
           {"requested_size", pickle::integer(block.requested)},
           {"state", pickle::text(state)},
           {"frames", is_active ? frames(lines_.at(block.address)) : pickle::list({})}}));
    }
    return pickle::dict({{"device", pickle::integer(static_cast<std::uint64_t>(ordinal_))},
                         {"address", pickle::integer(segment.address)},
                         {"total_size", pickle::integer(total)},
                         {"allocated_size", pickle::integer(allocated)},
                         {"active_size", pickle::integer(active)},
                         {"requested_size", pickle::integer(requested)},
                         {"stream", pickle::integer(segment.stream)},
                         {"segment_type", pickle::text(segment.is_small ? "small" : "large")},
                         {"segment_pool_id", pickle::pair(segment.pool.first, segment.pool.second)},
                         {"is_expandable", pickle::boolean(segment.is_expandable)},
                         {"frames", pickle::list({})},
                         {"blocks", pickle::list(blocks)}});
  }

  const std::int32_t ordinal_;
  const std::uint8_t id_;
  ShadowHeap heap_;
  std::vector<std::string> events_;
  std::vector<Bytes> history_;
  std::map<std::uint64_t, std::uint32_t> lines_;  // line of the last allocation at each address
  std::map<std::uint64_t, std::pair<std::uint64_t, HeapPool>> streams_;  // its stream, pool
  std::uint64_t time_us_ = 1'700'000'000'000'000;
  std::uint32_t line_ = 0;
  ModelAllocator model_;  // last member, because it calls the others
};

// The settings as in torch's snapshots; dotted names become nested dicts.
inline std::string settings_of(const std::vector<SeenSetting>& settings) {
  pickle::Items items, nested;
  for (const SeenSetting& setting : settings) {
    std::string value;
    if (const auto* flag = std::get_if<bool>(&setting.value)) value = pickle::boolean(*flag);
    if (const auto* number = std::get_if<double>(&setting.value)) value = pickle::real(*number);
    if (const auto* text = std::get_if<std::string>(&setting.value)) value = pickle::text(*text);
    if (const auto* integer = std::get_if<std::int64_t>(&setting.value)) {
      value = pickle::signed_integer(*integer);
    }
    const std::size_t dot = setting.name.find('.');
    if (dot == std::string::npos) {
      items.emplace_back(setting.name, value);
    } else {
      nested.emplace_back(setting.name.substr(dot + 1), value);
    }
  }
  items.emplace_back("roundup_power2_divisions", pickle::dict(nested));
  return pickle::dict(items);
}

// What torch.cuda.memory._dump_snapshot() would have written.
inline std::string snapshot_of(const std::vector<const ScriptedDevice*>& devices,
                               const std::vector<SeenSetting>& settings) {
  std::vector<std::string> segments, traces;
  for (const ScriptedDevice* device : devices) {
    device->append_segments(segments);
    traces.push_back(device->trace());
  }
  return pickle::file(pickle::dict({{"segments", pickle::list(segments)},
                                    {"device_traces", pickle::list(traces)},
                                    {"allocator_settings", settings_of(settings)}}));
}

}  // namespace plimsoll::tests
