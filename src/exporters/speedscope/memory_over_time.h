// How much of a device's memory each part of the model holds over time, in a form that speedscope's
// Time Order view draws as a stacked area: the x axis is time, and a part that holds bytes is as
// many frames deep as it holds steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters::speedscope {

// The device between two changes that the chart can show.
struct UsageSpan {
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;             // held by all parts
  std::vector<std::uint32_t> heights;  // by part, in steps; they sum to bytes / step, rounded up
};

struct MemoryOverTime {
  std::uint64_t step_bytes = 1;    // a power of two: the peak is 16 to 32 steps high
  std::vector<std::string> parts;  // layers, each with what no other part has of it
  std::vector<UsageSpan> spans;
};

// At most about `most` spans: of more, neighbours are one, as high as the higher of them. Without
// spans where the events have no times.
MemoryOverTime memory_over_time(const ExportInput& input, const model::DeviceTrace& device,
                                std::size_t most);

}  // namespace plimsoll::exporters::speedscope
