// Slow references for tiles, which follow the definitions and share no code with the tiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "tiles/axis.h"

namespace plimsoll::tests::reference {

// Whether a lifetime counts as live after an event; -1: before the first.
inline bool is_live(const model::DeviceTrace& device, std::size_t row, std::int64_t point) {
  const model::Lifetimes& all = device.lifetimes;
  if (all.alloc[row] != model::kNone && all.alloc[row] > point) return false;
  std::uint32_t end = all.free_completed[row];
  if (device.has_block_sizes && all.free_requested[row] != model::kNone) {
    end = all.free_requested[row];
  }
  if (end == model::kBeforeRecording) return false;
  return end == model::kNone || end > point;
}

// The bytes of a lifetime, from its first event or else from its final block.
inline std::uint64_t bytes_of(const model::Trace& trace, const model::DeviceTrace& device,
                              std::size_t row) {
  const std::uint32_t block = device.lifetimes.block[row];
  if (device.has_block_sizes && block != model::kNone) return trace.blocks[block].size;
  for (const std::uint32_t event :
       {device.lifetimes.alloc[row], device.lifetimes.free_requested[row],
        device.lifetimes.free_completed[row]}) {
    if (event == model::kNone || event == model::kBeforeRecording) continue;
    const std::uint64_t requested = device.events.size_bytes[event];
    return device.has_block_sizes ? requested + device.events.padding_bytes[event] : requested;
  }
  return trace.blocks[block].requested_size;
}

struct Totals {
  std::uint64_t live_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

// The change of the totals from before the first event to after `point`.
inline Totals change_until(const model::DeviceTrace& device, std::int64_t point) {
  using model::Action;
  Totals change;
  for (std::int64_t e = 0; e <= point; ++e) {
    const auto event = static_cast<std::size_t>(e);
    const Action action = device.events.action[event];
    const std::uint64_t size = device.events.size_bytes[event];
    const std::uint64_t counted =
        device.has_block_sizes ? size + device.events.padding_bytes[event] : size;
    const Action end = device.has_block_sizes ? Action::kFreeRequested : Action::kFreeCompleted;
    if (action == Action::kAlloc) change.live_bytes += counted;
    if (action == end || action == Action::kFree) change.live_bytes -= counted;
    if (action == Action::kSegmentAlloc || action == Action::kSegmentMap) {
      change.reserved_bytes += size;
    }
    if (action == Action::kSegmentFree || action == Action::kSegmentUnmap) {
      change.reserved_bytes -= size;
    }
  }
  return change;
}

// Nanoseconds from the first known time to the latest time up to the event; 0 if none is known.
inline double elapsed_ns(const model::DeviceTrace& device, std::size_t event) {
  std::int64_t first = model::kNoTime, latest = model::kNoTime;
  for (std::size_t e = 0; e <= event; ++e) {
    const std::int64_t time = device.events.time_ns[e];
    if (time == model::kNoTime) continue;
    if (first == model::kNoTime) first = latest = time;
    latest = std::max(latest, time);
  }
  return first == model::kNoTime ? 0 : static_cast<double>(latest - first);
}

// The step of an event, from 0: the number of preceding step marks. Marks before the first event of
// a truncated history do not count.
inline std::size_t step_number(const model::Trace& trace, const model::DeviceTrace& device,
                               std::size_t event) {
  std::size_t steps = 0;
  for (std::size_t mark = 0; mark < trace.marks.size(); ++mark) {
    const bool is_lost =
        device.history == model::History::kTruncated && device.mark_events[mark] == 0;
    if (trace.marks[mark].kind == model::MarkKind::kStep && !is_lost &&
        device.mark_events[mark] <= event) {
      ++steps;
    }
  }
  return steps;
}

}  // namespace plimsoll::tests::reference
