#include "readers/native/file_end.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/units.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {
namespace {

using format::FileState;
using format::RecordingState;

std::string since_start(const Recording& recording, std::int64_t time_ns) {
  return base::format_duration(std::max<std::int64_t>(0, time_ns - recording.started_ns())) +
         " after the start";
}

std::string of_all(std::uint64_t missing, std::uint64_t all) {
  return base::format_count(missing) + " of " + base::format_count(all) +
         (all == 1 ? " record" : " records");
}

// The number of events that the recorder wrote but the file lacks. After evictions the two counts
// are not comparable.
std::uint64_t lost_afterwards(const Recording& recording, const FileState& state,
                              const format::Damage& damage) {
  const std::uint64_t there = recording.events_in_blocks() + damage.events;
  const std::uint64_t written = state.events - std::min(state.events, state.missing);
  return state.evicted == 0 && written > there ? written - there : 0;
}

}  // namespace

void report_end(const Recording& recording, std::int64_t last_event_ns,
                const format::Damage& damage, base::Diagnostics& diagnostics) {
  if (diagnostics.count(kFileCut) > 0) return;
  const auto& state = recording.file_state();
  if (!state) {
    return diagnostics.add(kFileCut, 1, "How much is missing at the end is unknown");
  }
  const std::uint64_t lost = lost_afterwards(recording, *state, damage);
  if (lost > 0 || state->state == RecordingState::kEnded) {
    diagnostics.add(kFileTruncated, std::max<std::uint64_t>(1, lost),
                    of_all(lost, state->events) + " missing");
  }
  const std::string until =
      since_start(recording, std::max(state->written_until_ns, last_event_ns));
  if (state->state == RecordingState::kFailed) {
    diagnostics.add(kSinkFailed, std::max<std::uint64_t>(1, state->missing),
                    std::string(std::strerror(static_cast<int>(state->error))) + ", " + until +
                        "; " + of_all(state->missing, state->events) +
                        " missing, of those recorded until " +
                        since_start(recording, state->time_ns));
  } else if (state->state == RecordingState::kRunning && lost == 0) {
    diagnostics.add(kFileCut, 1,
                    "Everything until " + until + " is in the file. Events took at most " +
                        base::format_duration(static_cast<std::int64_t>(state->longest_wait_ns)) +
                        " to get there, so a kill lost about that much at the end");
  }
}

}  // namespace plimsoll::readers::native
