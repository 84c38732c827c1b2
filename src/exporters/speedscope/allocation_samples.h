// The allocations of a device in order, as a number of samples that a browser can draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::exporters::speedscope {

struct Sample {
  model::StackId stack;
  std::uint64_t bytes = 0;
};

// Returns at most `most` samples, or more if there are more distinct stacks than that. The
// allocations are divided into windows of equal count, the smallest power of two that fits. Within
// a window each stack is one sample, at the position of its first allocation.
std::vector<Sample> allocation_samples(const model::Trace& trace, const model::DeviceTrace& device,
                                       std::size_t most);

}  // namespace plimsoll::exporters::speedscope
