// Recordings in tests: started in one line, stopped at the end of the scope, and replayed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "plimsoll/recorder_c.h"
#include "tests/support/trace_replay.h"

namespace plimsoll::tests {

inline const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }

inline plimsoll_context* here() { return api().context(); }

inline std::uint32_t name(std::string_view text) { return api().name(text.data(), text.size()); }

inline plimsoll_recording_options options_for(plimsoll_sink sink) {
  plimsoll_recording_options options{};
  options.size_bytes = sizeof options;
  options.sink = static_cast<std::uint8_t>(sink);
  return options;
}

class Recorded {
 public:
  explicit Recorded(const plimsoll_recording_options& options) {
    const char* error = nullptr;
    recording_ = plimsoll_recording_start(&options, &error);
    EXPECT_NE(recording_, nullptr) << (error != nullptr ? error : "no reason was given");
  }
  static Recorded in_memory(std::uint64_t max_events = 0) {
    plimsoll_recording_options options = options_for(PLIMSOLL_SINK_MEMORY);
    options.max_events = max_events;
    return Recorded(options);
  }
  static Recorded into_file(const std::string& path, std::uint64_t max_events = 0) {
    plimsoll_recording_options options = options_for(PLIMSOLL_SINK_FILE);
    options.path = path.c_str();
    options.max_events = max_events;
    return Recorded(options);
  }
  Recorded(Recorded&& other) noexcept : recording_(std::exchange(other.recording_, nullptr)) {}
  Recorded& operator=(Recorded&&) = delete;
  ~Recorded() { stop(); }

  plimsoll_recording* get() const { return recording_; }
  plimsoll_recording_state state() const {
    plimsoll_recording_state state{};
    plimsoll_recording_get_state(recording_, &state);
    return state;
  }
  plimsoll_recording_state stop() {
    plimsoll_recording_state state{};
    plimsoll_recording_stop(std::exchange(recording_, nullptr), &state);
    return state;
  }
  void flush() const { plimsoll_recording_flush(recording_); }
  std::uint64_t peak_bytes(int reset = 0) const {
    return plimsoll_recording_peak_bytes(recording_, reset);
  }
  // Replays the current content of the file.
  TraceReplay replay() const {
    std::size_t size_bytes = 0;
    void* bytes = plimsoll_recording_copy(recording_, &size_bytes);
    EXPECT_NE(bytes, nullptr);
    TraceReplay replay = TraceReplay::of_bytes({static_cast<const std::byte*>(bytes), size_bytes});
    std::free(bytes);
    return replay;
  }

 private:
  plimsoll_recording* recording_ = nullptr;
};

// A path in the tests' temporary folder, unique to this process; the file is deleted with the
// object.
class TemporaryPath {
 public:
  explicit TemporaryPath(std::string_view stem)
      : path_(testing::TempDir() + std::string(stem) + "." + std::to_string(getpid())) {}
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath() { unlink(path_.c_str()); }
  const std::string& str() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  std::string path_;
};

}  // namespace plimsoll::tests
