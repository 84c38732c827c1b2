// Recording from C++: start and stop a recording, and mark the program's layers, phases and steps.
//
//   auto recording = plimsoll::Recording::start({.path = "train.plim"});
//   if (!recording) std::cerr << recording.error().message << '\n';  // and train without it
//   for (...) {
//     { PLIMSOLL_LAYER("Net"); ... PLIMSOLL_LAYER("fc1"); }          // "Net", then "Net.fc1"
//     { plimsoll::OptimizerPhase phase; optimizer.step(); }
//     plimsoll::step();
//   }
//
// Everything except starting a recording may stay in a program permanently: it is noexcept, and
// costs two calls that do nothing while no recording runs. Scopes belong to the thread that created
// them and end in reverse order. Link plimsoll_record.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "plimsoll/result.h"

namespace plimsoll {

namespace detail {
// Under `plimsoll run -- PROGRAM` the program is recorded from before main().
[[maybe_unused]] static const bool kIsRecordedFromStart = plimsoll_record_from_environment() != 0;
}  // namespace detail

using RecordingState = plimsoll_recording_state;

// What a child made by fork() records.
enum class InChildren : std::uint8_t { kNothing, kFileOfTheirOwn };

struct RecordingOptions {
  std::string path = {};         // empty: record into memory, for copy() and take()
  bool overwrite = false;        // replace an earlier trace at `path`; else use the next free name
  std::uint64_t max_events = 0;  // keep about the newest N events; 0: all
  InChildren in_children = InChildren::kNothing;
  std::vector<std::pair<std::string, std::string>> meta = {};  // written to the file's head
  bool marks_layer_calls = false;  // record when each layer's forward begins and ends
};

// One recording, from start() to stop() or the end of its scope. Use it on one thread at a time.
class Recording {
 public:
  // Fails with kIo if, for example, the file cannot be created.
  static Result<Recording> start(const RecordingOptions& options) {
    std::vector<const char*> meta;
    for (const auto& [key, value] : options.meta) {
      meta.push_back(key.c_str());
      meta.push_back(value.c_str());
    }
    meta.push_back(nullptr);
    plimsoll_recording_options c{};
    c.size_bytes = sizeof(c);
    c.sink = options.path.empty() ? PLIMSOLL_SINK_MEMORY : PLIMSOLL_SINK_FILE;
    c.in_children = static_cast<std::uint8_t>(options.in_children);
    c.path = options.path.empty() ? nullptr : options.path.c_str();
    c.replaces = options.overwrite ? 1 : 0;
    c.marks_layer_calls = options.marks_layer_calls ? 1 : 0;
    c.max_events = options.max_events;
    c.meta = meta.data();
    const char* why = nullptr;
    plimsoll_recording* handle = plimsoll_recording_start(&c, &why);
    if (handle == nullptr) return make_error(ErrorCode::kIo, why != nullptr ? why : "");
    return Recording(handle);
  }

  Recording(Recording&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), last_(other.last_) {}
  Recording& operator=(Recording&& other) noexcept {
    if (this != &other) {
      stop();
      handle_ = std::exchange(other.handle_, nullptr);
      last_ = other.last_;
    }
    return *this;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { stop(); }

  bool is_running() const noexcept { return handle_ != nullptr; }

  // The path of the trace file, which may differ from the requested path; empty once the recording
  // has stopped.
  std::string path() const { return handle_ != nullptr ? plimsoll_recording_path(handle_) : ""; }

  // Waits until every event from before this call is in the file.
  void flush() noexcept {
    if (handle_ != nullptr) plimsoll_recording_flush(handle_);
  }

  // Reads the memory of the process now, and not when the recording stops.
  void read_process() noexcept {
    if (handle_ != nullptr) plimsoll_recording_read_process(handle_);
  }

  // The current state, or the state when the recording stopped.
  RecordingState state() const noexcept {
    RecordingState now = last_;
    if (handle_ != nullptr) plimsoll_recording_get_state(handle_, &now);
    return now;
  }

  // Ends the file. Further calls do nothing and return the same state.
  RecordingState stop() noexcept {
    if (handle_ != nullptr) plimsoll_recording_stop(std::exchange(handle_, nullptr), &last_);
    return last_;
  }

  // The peak of live bytes since the last reset_peak(), which returns the peak and starts a new one
  // at the current live bytes.
  std::uint64_t peak_bytes() const noexcept { return peak(0); }
  std::uint64_t reset_peak() noexcept { return peak(1); }

  // The recording so far, as the content of a trace file. Empty unless it records into memory, and
  // if there is no memory for the copy.
  std::vector<std::byte> copy() const {
    std::size_t size_bytes = 0;
    void* data = handle_ != nullptr ? plimsoll_recording_copy(handle_, &size_bytes) : nullptr;
    return bytes_of(data, size_bytes);
  }

  // Ends a recording into memory and returns it as the content of a trace file. Empty for other
  // recordings, and if there is no memory for it.
  std::vector<std::byte> take() {
    std::size_t size_bytes = 0;
    void* data = handle_ != nullptr
                     ? plimsoll_recording_take(std::exchange(handle_, nullptr), &last_, &size_bytes)
                     : nullptr;
    return bytes_of(data, size_bytes);
  }

 private:
  explicit Recording(plimsoll_recording* handle) : handle_(handle) {}

  // Takes ownership of `data`, which is from malloc.
  static std::vector<std::byte> bytes_of(void* data, std::size_t size_bytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    std::vector<std::byte> all;
    if (bytes != nullptr) all.assign(bytes, bytes + size_bytes);
    std::free(data);
    return all;
  }

  std::uint64_t peak(int reset) const noexcept {
    return handle_ != nullptr ? plimsoll_recording_peak_bytes(handle_, reset) : 0;
  }

  plimsoll_recording* handle_;
  RecordingState last_{};
};

namespace detail {

// Layers have paths, such as "Net.block1.conv", made of the names of the enclosing scopes. Each
// thread caches its paths by the enclosing layer and the address of the name, which is a literal.
struct LayerPath {
  std::uint32_t around = 0;
  const char* name = nullptr;
  std::uint32_t id = 0;
  std::string text = {};
};

inline std::uint32_t name_of(std::string_view text) noexcept {
  return plimsoll_recorder()->name(text.data(), text.size());
}

class LayerPaths {
 public:
  // The path of `name` inside the layer `around`; null if there is no memory for it.
  const LayerPath* find(const LayerPath* around, const char* name) noexcept {
    const std::uint32_t around_id = around != nullptr ? around->id : 0;
    const LayerPath*& slot = slots_[place_of(around_id, name)];
    if (slot != nullptr && slot->around == around_id && slot->name == name) return slot;
    for (const LayerPath* path : all_) {
      if (path->around == around_id && path->name == name) return slot = path;
    }
    return slot = add(around, name);
  }

  LayerPaths() = default;
  LayerPaths(const LayerPaths&) = delete;
  LayerPaths& operator=(const LayerPaths&) = delete;
  ~LayerPaths() {
    for (const LayerPath* path : all_) delete path;
  }

 private:
  static constexpr std::size_t kSlots = 1024;

  static std::size_t place_of(std::uint32_t around, const char* name) noexcept {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(name));
    return ((address + around) * 0x9E3779B97F4A7C15U) >> 54U;
  }

  const LayerPath* add(const LayerPath* around, const char* name) noexcept {
    try {
      std::string text = around != nullptr ? around->text + "." + name : std::string(name);
      const std::uint32_t id = name_of(text);
      all_.reserve(all_.size() + 1);
      all_.push_back(new LayerPath{around != nullptr ? around->id : 0, name, id, std::move(text)});
      return all_.back();
    } catch (...) {
      return nullptr;
    }
  }

  std::array<const LayerPath*, kSlots> slots_{};
  std::vector<const LayerPath*> all_;
};

struct ThreadLayers {
  LayerPaths paths;
  const LayerPath* innermost = nullptr;
};

inline ThreadLayers& thread_layers() {
  thread_local ThreadLayers layers;
  return layers;
}

// The listener that shows ranges in another tool's timeline; null if there is none.
inline const plimsoll_range_listener* range_listener() noexcept {
  return __atomic_load_n(plimsoll_recorder()->range_listener, __ATOMIC_ACQUIRE);
}
inline void begin_range(plimsoll_range range, std::uint32_t value) noexcept {
  if (const auto* listener = range_listener()) listener->begin(range, value);
}
inline void end_range(plimsoll_range range, std::uint32_t value) noexcept {
  if (const auto* listener = range_listener()) listener->end(range, value);
}

// The C interface if a recording runs, else null.
inline const plimsoll_recorder_api* running_recorder() noexcept {
  const plimsoll_recorder_api* api = plimsoll_recorder();
  return api->is_recording() != 0 ? api : nullptr;
}

}  // namespace detail

// While a LayerScope exists, its thread is in the forward of a layer. PLIMSOLL_LAYER creates one.
class LayerScope {
 public:
  // `name` must live as long as the program, as a literal does.
  explicit LayerScope(const char* name) noexcept {
    const plimsoll_recorder_api* api = detail::running_recorder();
    if (api == nullptr) return;
    detail::ThreadLayers& layers = detail::thread_layers();
    const detail::LayerPath* path = layers.paths.find(layers.innermost, name);
    if (path == nullptr) return;
    context_ = api->context();
    around_ = std::exchange(layers.innermost, path);
    layer_before_ = std::exchange(context_->layer, path->id);
    phase_before_ = context_->phase;
    if (phase_before_ == PLIMSOLL_PHASE_OTHER) {
      context_->phase = PLIMSOLL_PHASE_FORWARD;
      detail::begin_range(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_FORWARD);
    }
    detail::begin_range(PLIMSOLL_RANGE_LAYER, path->id);
  }
  ~LayerScope() {
    if (context_ == nullptr) return;
    detail::end_range(PLIMSOLL_RANGE_LAYER, detail::thread_layers().innermost->id);
    if (phase_before_ == PLIMSOLL_PHASE_OTHER) {
      detail::end_range(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_FORWARD);
    }
    context_->layer = layer_before_;
    context_->phase = phase_before_;
    detail::thread_layers().innermost = around_;
  }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  plimsoll_context* context_ = nullptr;
  const detail::LayerPath* around_ = nullptr;
  std::uint32_t layer_before_ = 0;
  std::uint8_t phase_before_ = PLIMSOLL_PHASE_OTHER;
};

// A part of the program with a name chosen by the user. PLIMSOLL_REGION creates one.
class RegionScope {
 public:
  explicit RegionScope(std::string_view name) noexcept : api_(detail::running_recorder()) {
    if (api_ == nullptr) return;
    name_ = detail::name_of(name);
    api_->mark(api_->context(), PLIMSOLL_MARK_REGION_BEGIN, name_);
  }
  ~RegionScope() {
    if (api_ != nullptr) api_->mark(api_->context(), PLIMSOLL_MARK_REGION_END, name_);
  }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  const plimsoll_recorder_api* api_;
  std::uint32_t name_ = 0;
};

// While a PhaseScope exists, its thread is in this phase and in no layer.
template <plimsoll_phase kPhase>
class PhaseScope {
 public:
  PhaseScope() noexcept {
    const plimsoll_recorder_api* api = detail::running_recorder();
    if (api == nullptr) return;
    context_ = api->context();
    layer_before_ = std::exchange(context_->layer, 0);
    phase_before_ = std::exchange(context_->phase, static_cast<std::uint8_t>(kPhase));
    detail::begin_range(PLIMSOLL_RANGE_PHASE, kPhase);
  }
  ~PhaseScope() {
    if (context_ == nullptr) return;
    detail::end_range(PLIMSOLL_RANGE_PHASE, kPhase);
    context_->layer = layer_before_;
    context_->phase = phase_before_;
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  plimsoll_context* context_ = nullptr;
  std::uint32_t layer_before_ = 0;
  std::uint8_t phase_before_ = PLIMSOLL_PHASE_OTHER;
};

using OptimizerPhase = PhaseScope<PLIMSOLL_PHASE_OPTIMIZER>;
using DataPhase = PhaseScope<PLIMSOLL_PHASE_DATA>;

namespace detail {

// Steps that optimizers have ended, until the program marks its own.
inline std::atomic<std::uint64_t> optimizer_steps{0};
inline std::atomic<bool> has_own_steps{false};

inline void optimizer_step() noexcept {
  const plimsoll_recorder_api* api = running_recorder();
  if (api == nullptr || has_own_steps.load(std::memory_order_relaxed)) return;
  api->mark(api->context(), PLIMSOLL_MARK_STEP,
            optimizer_steps.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace detail

// Ends a step of the training loop, in place of the steps that optimizers end. Without a number,
// steps are counted from 0. Any thread may call this.
inline void step(std::uint64_t number) noexcept {
  const plimsoll_recorder_api* api = detail::running_recorder();
  const bool is_first = !detail::has_own_steps.exchange(true, std::memory_order_relaxed);
  if (api == nullptr) return;
  if (is_first && detail::optimizer_steps.load(std::memory_order_relaxed) > 0) {
    api->mark(api->context(), PLIMSOLL_MARK_OWN_STEPS, 0);
  }
  api->mark(api->context(), PLIMSOLL_MARK_STEP, number);
}
inline void step() noexcept {
  static std::atomic<std::uint64_t> count{0};
  step(count.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace plimsoll

#define PLIMSOLL_SCOPE_CONCAT_(a, b) a##b
#define PLIMSOLL_SCOPE_NAME_(kind, number) PLIMSOLL_SCOPE_CONCAT_(kind, number)

// Until the end of the block, this thread is in the forward of this layer. The name is a literal;
// it is appended to the names of the enclosing layers.
#define PLIMSOLL_LAYER(name) \
  const ::plimsoll::LayerScope PLIMSOLL_SCOPE_NAME_(plimsoll_layer_, __COUNTER__) { "" name }
// Until the end of the block, the program is in this region.
#define PLIMSOLL_REGION(name) \
  const ::plimsoll::RegionScope PLIMSOLL_SCOPE_NAME_(plimsoll_region_, __COUNTER__) { name }
