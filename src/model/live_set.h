// Which lifetimes are live at a point in time: "after event e of the device" (0-based), or before
// the first event (kBeforeFirst). A lifetime is active until free_completed, and allocated until
// free_requested.
//
// Tables use the allocator's own count if a device has blocks: block sizes until the program frees
// them. Otherwise they count requested bytes until the memory can be allocated again.
#pragma once

#include <cstdint>
#include <vector>

#include "model/live_index.h"
#include "model/trace.h"

namespace plimsoll::model {

inline constexpr std::int64_t kBeforeFirst = -1;

inline Liveness default_liveness(const DeviceTrace& device) {
  return device.has_block_sizes ? Liveness::kAllocated : Liveness::kActive;
}

// When the lifetime ends for this kind of liveness: an event number, kNone if it never ends, or
// kBeforeRecording if it ended before the first event (allocated only: the block is pending, so it
// is still active).
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

// When the recording began: after the first events, as long as they only report memory older than
// the recording (allocations, and the segments that contain them); else kBeforeFirst.
std::int64_t start_of_recording(const DeviceTrace& device);

// Rows of device.lifetimes, ascending, in O(log n + size of the result).
std::vector<std::uint32_t> live_set(const DeviceTrace& device, Liveness liveness,
                                    std::int64_t event);

}  // namespace plimsoll::model
