// The steps of a training loop on a device: a step is the span between two marks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/trace.h"

namespace plimsoll::model {

struct StepEnd {
  std::uint32_t event = 0;  // the step ends before this event of the device
  std::uint64_t step = 0;   // the number of the step that ends there
  std::int64_t time_ns = kNoTime;
};

// In the order of the recording, so `event` ascends; empty if no steps are marked. Steps that ended
// before the first event of a truncated history are unknown.
std::vector<StepEnd> step_ends(const Trace& trace, const DeviceTrace& device);

// The row of `ends` that ends the step of `event`; ends.size() after the last one.
std::size_t step_of(const std::vector<StepEnd>& ends, std::uint32_t event);

}  // namespace plimsoll::model
