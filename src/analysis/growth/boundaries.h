// Where steps end, and which of these points are compared:
//
//   1. the steps that the recording itself marks (recorder, or plimsoll.step() in the program);
//   2. else ends of optimizer steps ("Optimizer.step#..."), if it has such annotations;
//   3. else ends of "ProfilerStep#..." annotations;
//   4. else, with no steps marked at all, the ends of optimizer steps that the stacks of their
//      allocations show;
//   5. else the steps that one of 1 to 4 finds on another device, by time;
//   6. else, if only forward runs, the calls of the root module;
//   7. else the valleys of the device's total if it rises and falls repeatedly, by more than it
//      grows meanwhile. Otherwise a leak cannot be distinguished from a single step in which every
//      layer keeps something for backward;
//   8. else the calls or valleys of another device, by time.
//
// Of another device, points inside a forward on this one do not count.
//
// If there are more than 128 boundaries, only every n-th is kept, counted from the last one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

struct Boundaries {
  std::string name;                   // step, cycle, calls or an annotation, as reports name it
  std::vector<std::uint32_t> events;  // each is the point before this event of the device,
                                      // ascending; empty if growth can't be judged
  bool are_calls = false;             // calls of a module, in a program that does not train
  std::uint32_t steps_each = 1;       // number of steps between one boundary and the next
  std::size_t steps = 0;              // number of steps found; the boundaries are those kept
  std::string why_none;               // the reason if there are none: one sentence
};

Boundaries find_boundaries(const model::Trace& trace, const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
