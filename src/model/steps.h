// The steps of a training loop as a device saw them: between two marks lies one step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/trace.h"

namespace plimsoll::model {

struct StepEnd {
  std::uint32_t event = 0;  // the moment before this event of the device
  std::uint64_t step = 0;   // the number of the step that ends there
  std::int64_t time_ns = kNoTime;
};

// In the order of the recording, so `event` ascends; empty if no steps are marked. Steps that ended
// before the first event of a history that was cut are unknown.
std::vector<StepEnd> step_ends(const Trace& trace, const DeviceTrace& device);

// Which row of `ends` is the end of the step in which `event` happened; ends.size(): after the last
// one.
std::size_t step_of(const std::vector<StepEnd>& ends, std::uint32_t event);

}  // namespace plimsoll::model
