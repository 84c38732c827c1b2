// Replays the births and deaths of a device's lifetimes in the order of its events.
#pragma once

#include <cstdint>
#include <vector>

#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::analysis {

// Calls died(row, event) and born(row, event) for the lifetimes of the device (rows of
// device.lifetimes), in the order of its events; if both happen at one event, the death comes
// first. Baseline lifetimes are live from the start and only die.
template <typename Born, typename Died>
void replay(const model::DeviceTrace& device, model::Liveness liveness, Born&& born, Died&& died) {
  const model::Lifetimes& lifetimes = device.lifetimes;
  std::vector<std::uint32_t> ended(device.events.size(), model::kNone);
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    const std::uint32_t event = model::death(lifetimes, row, liveness);
    if (event < ended.size()) ended[event] = row;
  }
  std::uint32_t next = lifetimes.baseline_count;
  for (std::uint32_t event = 0; event < ended.size(); ++event) {
    if (ended[event] != model::kNone) died(ended[event], event);
    if (next < lifetimes.size() && lifetimes.alloc[next] == event) born(next++, event);
  }
}

}  // namespace plimsoll::analysis
