// The recording of a process that is watched: it goes nowhere, and is asked what is live.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "alerts/survivors.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::monitor {

// What is live on each device now, by what recorder and device source tell. The peaks of the
// recorder's devices are those since `span` (of the watch of this number); 0: none.
struct Held {
  std::vector<plimsoll_usage> recorded;
  std::vector<std::array<std::uint64_t, 6>> at_peak;  // by device and role; empty: unknown
  std::vector<DeviceMemory> told;                     // by the device source
  bool has_span = false;  // else the peaks are unknown: another recording is asked now
};
Held what_is_held(std::uint64_t watch, std::uint64_t span);
// The recorder's part of it alone, without peaks: nobody else's locks are taken.
std::vector<plimsoll_usage> what_is_recorded();

// The number of the step that ended last; 0: none has, or nobody records.
std::int64_t last_step();

// A span of the recorder's, and the number of the watch that it belongs to.
struct BegunSpan {
  std::uint64_t watch = 0;
  std::uint64_t span = 0;
};
BegunSpan begin_span();
void end_span(const BegunSpan& span);

// All that is live, in no order, instead of what was in `rows`, whose memory is used again.
void read_live_rows(std::vector<plimsoll_live>& rows);

// Recordings that others have begun and will end: the newest of them is asked while no watch runs.
// One is taken back before it ends.
void lend_recording(plimsoll_recording* recording);
void take_back_recording(plimsoll_recording* recording);

std::vector<DeviceMemory> ask_device_source();

// As take_sample(); also shows the live allocations to `survivors`.
MemorySample sample_and_observe(const SampleOptions& options, alerts::Survivors& survivors);

}  // namespace plimsoll::monitor
