// The memory of each part of the model over time, in a form that speedscope's Time Order view draws
// as a stacked area: the x axis is time, and a part is as many frames deep as its bytes are steps
// high.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters::speedscope {

// The device between two changes that are visible in the chart.
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

// At most about `most` spans: beyond that, neighbors are merged and keep the greater height. No
// spans if the events have no times.
MemoryOverTime memory_over_time(const ExportInput& input, const model::DeviceTrace& device,
                                std::size_t most);

}  // namespace plimsoll::exporters::speedscope
