// Which lifetimes are alive at a moment. A moment is "after event e of the device" (0-based), or
// before the first event (kBeforeFirst). Active counts until free_completed, allocated until
// free_requested.
//
// Tables count what is held: if a device has blocks that is the allocator's own count, block
// sizes until the program gave them back. Else it is requested bytes until they could be handed out
// again.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::model {

inline constexpr std::int64_t kBeforeFirst = -1;

enum class Liveness : std::uint8_t { kAllocated, kActive };

inline Liveness held(const DeviceTrace& device) {
  return device.tells_blocks ? Liveness::kAllocated : Liveness::kActive;
}

// When the lifetime ends for this kind of liveness: an event number, kNone if it never does, or
// kBeforeRecording if it had ended before the first event (allocated only: the block is pending, so
// still active).
inline std::uint32_t death(const Lifetimes& lifetimes, std::size_t row, Liveness liveness) {
  const std::uint32_t completed = lifetimes.free_completed[row];
  if (liveness == Liveness::kActive) return completed;
  const std::uint32_t requested = lifetimes.free_requested[row];
  return requested != kNone ? requested : completed;
}

inline bool is_live(const Lifetimes& lifetimes, std::size_t row, Liveness liveness,
                    std::int64_t event) {
  const std::uint32_t born = lifetimes.alloc[row];
  if (born != kNone && std::int64_t{born} > event) return false;
  const std::uint32_t died = death(lifetimes, row, liveness);
  if (died == kBeforeRecording) return false;
  return died == kNone || std::int64_t{died} > event;
}

// When the recording began: after the first events, as long as they state only what is older than
// the recording (allocations, and the segments that they are in); else kBeforeFirst.
std::int64_t start_of_recording(const DeviceTrace& device);

// Rows of device.lifetimes, ascending.
std::vector<std::uint32_t> live_set(const DeviceTrace& device, Liveness liveness,
                                    std::int64_t event);

}  // namespace plimsoll::model
