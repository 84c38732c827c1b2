// Profiles for speedscope. For each device:
//
//   memory over time        a stacked area by layer over time (memory_over_time.h)
//   live at the point in time by layer   (if layers are known)
//   live at the point in time      each stack once, weighted by its live requested bytes
//   allocations over time   stacks in the order of allocation, weighted by the bytes allocated
//
// Frames of the interpreter are omitted (flame_frames.h).
//
// Speedscope's Time Order view draws the last one along the sequence of allocations: the x axis is
// bytes allocated so far, so that a step's phases are side by side and a spike of allocation is
// wide. Its Left Heavy view is churn by stack. A recording with more allocations than a browser can
// draw is divided into windows; within one, the allocations of a stack are summed.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::speedscope {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::speedscope
