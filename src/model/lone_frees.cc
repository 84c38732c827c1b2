#include "model/lone_frees.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

#include "model/diagnostics.h"

namespace plimsoll::model {
namespace {

using Addresses = std::unordered_set<std::uint64_t>;

// Whether an allocation of the recording is freed by a lone free_completed.
bool is_completed_without_request(const Events& events) {
  Addresses allocated;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.action[row] == Action::kAlloc) allocated.insert(events.address[row]);
    if (events.action[row] == Action::kFreeCompleted && allocated.contains(events.address[row])) {
      return true;
    }
  }
  return false;
}

// The blocks that still wait for a stream at the end: only their last free has no free_completed.
Addresses pending_at_end(const Trace& trace, const DeviceTrace& device) {
  Addresses pending;
  for (const Segment& segment : trace.segments.span(device.first_segment, device.segment_count)) {
    for (const Block& block : trace.blocks.span(segment.first_block, segment.block_count)) {
      if (block.state == BlockState::kActivePendingFree) pending.insert(block.address);
    }
  }
  return pending;
}

}  // namespace

void join_lone_frees(const Trace& trace, DeviceTrace& device, base::Diagnostics& diagnostics) {
  Events& events = device.events;
  const std::span<Action> actions(events.action.data(), events.size());
  const auto is_recorded = [&](Action action) {
    return std::ranges::find(actions, action) != actions.end();
  };
  const bool has_requests = is_recorded(Action::kFreeRequested);
  if (has_requests == is_recorded(Action::kFreeCompleted)) return;
  if (!has_requests && !is_completed_without_request(events)) return;
  if (has_requests && !device.has_final_state) return;
  const Action lone = has_requests ? Action::kFreeRequested : Action::kFreeCompleted;
  Addresses pending = has_requests ? pending_at_end(trace, device) : Addresses{};
  std::uint64_t joined = 0;
  for (std::size_t row = events.size(); row-- > 0;) {
    if (actions[row] != lone || pending.erase(events.address[row]) > 0) continue;
    actions[row] = Action::kFree;
    ++joined;
  }
  if (joined == 0) return;
  diagnostics.add(kLoneFrees, joined,
                  to_string(device.device) + " has no " +
                      to_string(has_requests ? Action::kFreeCompleted : Action::kFreeRequested));
}

}  // namespace plimsoll::model
