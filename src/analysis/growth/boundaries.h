// Where steps end, and which of these moments are compared:
//
//   1. the steps that the recording itself marks (recorder, or plimsoll.step() in the program);
//   2. else ends of optimizer steps ("Optimizer.step#..."), if it has such annotations;
//   3. else ends of "ProfilerStep#..." annotations;
//   4. else, with no steps marked at all, the valleys of the device's total if it rises and falls
//      again and again, by more than it grows meanwhile. Otherwise nothing tells a leak from a
//      single step in which every layer keeps something for backward.
//
// The first quarter is warm-up and left out. More than 64 are thinned evenly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

struct Boundary {
  std::uint32_t event = 0;  // the moment before this event of the device
  std::uint32_t step = 0;   // how many boundaries came before
};

struct Boundaries {
  std::string name;            // "step", of the annotation, or "cycle"
  std::vector<Boundary> kept;  // ascending; empty if growth can't be judged
  std::string why_none;        // why not: one sentence
};

Boundaries find_boundaries(const model::Trace& trace, const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
