// The memory of each part of the model over time, in a form that speedscope's Time Order view draws
// as a stacked area: the x axis is time, and the depth of a part in frames is its bytes in steps of
// `step_bytes`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters::speedscope {

// A period of time in which the chart of the device does not change.
struct UsageSpan {
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;             // of all parts
  std::vector<std::uint32_t> heights;  // by part, in steps; they sum to bytes / step, rounded up
};

struct MemoryOverTime {
  std::uint64_t step_bytes = 1;    // a power of two: the peak is 64 to 128 steps high
  std::vector<std::string> parts;  // layers, each without the bytes of other parts
  std::vector<UsageSpan> spans;
};

// At most about `most` spans: beyond that, neighbors are merged and keep the greater height. There
// are no spans if the events have no times.
MemoryOverTime memory_over_time(const ExportInput& input, const model::DeviceTrace& device,
                                std::size_t most);

}  // namespace plimsoll::exporters::speedscope
