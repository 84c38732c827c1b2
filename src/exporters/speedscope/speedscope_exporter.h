// Profiles for speedscope. For each device:
//
//   memory over time                    a stacked area by layer (memory_over_time.h)
//   live at the point in time by layer  if layers are known
//   live at the point in time           each stack once, weighted by its live requested bytes
//   allocations over time               stacks in order of allocation, weighted by allocated bytes
//
// Frames of the interpreter are omitted (flame_frames.h).
//
// Speedscope's Time Order view draws "allocations over time" along the sequence of allocations: the
// x axis is the bytes allocated so far, so the phases of a step are next to each other and a spike
// of allocation is wide. Its Left Heavy view shows churn by stack. A recording with more
// allocations than a browser can draw is divided into windows, in which the allocations of a stack
// are summed.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::speedscope {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::speedscope
