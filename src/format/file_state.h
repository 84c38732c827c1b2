// The state of a recording, as its file tells it: a block of fixed size behind the prelude, which
// the recorder writes anew in its place. What the file lacks is so known from the file itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "format/block.h"

namespace plimsoll::format {

enum class RecordingState : std::uint8_t {
  kRunning = 1,  // or the process was killed
  kEnded = 2,
  kFailed = 3  // the file could not be written any more
};

// Times are since the Unix epoch, 0: none.
struct FileState {
  RecordingState state = RecordingState::kRunning;
  std::uint32_t error = 0;            // kFailed: Linux's errno
  std::int64_t time_ns = 0;           // when this was written: the recorder was at work until then
  std::int64_t written_until_ns = 0;  // all events of before are in the file, or evicted
  std::uint64_t events = 0;           // recorded until time_ns
  std::uint64_t missing = 0;          // of them: could not be written
  std::uint64_t evicted = 0;          // of them: forgotten on purpose (max_events)
  std::int64_t evicted_until_ns = 0;
  std::uint64_t longest_wait_ns = 0;  // until an event was in the file
  friend bool operator==(const FileState&, const FileState&) = default;
};

inline constexpr std::size_t kFileStateBytes = kBlockHeadBytes + 64;
inline constexpr std::int64_t kFileStateOffset = kPreludeBytes;

// The whole block.
std::array<std::byte, kFileStateBytes> encode_file_state(const FileState& state) noexcept;
// Nothing if a later version has another state, or the payload is too short.
std::optional<FileState> read_file_state(std::span<const std::byte> payload) noexcept;

}  // namespace plimsoll::format
