// The recording of a watched process: it has no sink and is queried for live memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "alerts/survivors.h"
#include "plimsoll/last_use_c.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "plimsoll/peak_c.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::monitor {

// The current live memory of each device, from the recorder and the device source. Peaks of the
// recorder's devices cover the time since `span` (of the watch with this number); 0: no span.
struct LiveMemory {
  std::vector<plimsoll_usage> recorded;
  std::vector<plimsoll_peak> peaks;    // by device; empty: unknown
  std::vector<DeviceMemory> reported;  // by the device source
  bool has_span = false;  // false: the peaks are unknown, because a different recording is queried
                          // now
};
// Reads the current live memory of each device from the recorder and the device source. Peaks of
// the recorder's devices cover the time since `span`, which belongs to the watch with this number;
// a span of 0 means no peaks.
LiveMemory live_memory(std::uint64_t watch, std::uint64_t span);
// The recorder's part alone, without peaks. Takes no locks of other components.
std::vector<plimsoll_usage> recorded_usage();

// The number of the step that ended last; 0 if none has ended or nothing is recorded.
std::int64_t last_step();

// A span of the recorder, and the number of its watch.
struct BegunSpan {
  std::uint64_t watch = 0;
  std::uint64_t span = 0;
};
BegunSpan begin_span();
void end_span(const BegunSpan& span);

// Replaces `rows` by all live allocations, in any order, and reuses its memory.
void read_live_rows(std::vector<plimsoll_live>& rows);

// Replaces `rows` by the live allocations that no operator has used since the point. Returns false
// if they are unknown.
bool read_unused_rows(const plimsoll_use_point& since, std::vector<plimsoll_live>& rows);

// Recordings that other code has started and will end: the newest is queried while no watch runs.
// Remove a recording before it ends.
void lend_recording(plimsoll_recording* recording);
void take_back_recording(plimsoll_recording* recording);

std::vector<DeviceMemory> ask_device_source();

// Like take_sample(); also passes the live allocations to `survivors`.
MemorySample sample_and_observe(const SampleOptions& options, alerts::Survivors& survivors);

}  // namespace plimsoll::monitor
