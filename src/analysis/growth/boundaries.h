// Where steps end, and which of these moments are compared:
//
//   1. the steps that the recording itself marks (recorder, or plimsoll.step() in the program);
//   2. else ends of optimizer steps ("Optimizer.step#..."), if it has such annotations;
//   3. else ends of "ProfilerStep#..." annotations;
//   4. else, with no steps marked at all, the ends of optimizer steps that the stacks of their
//      allocations show;
//   5. else, if only forward runs, the calls of the root module;
//   6. else the valleys of the device's total if it rises and falls
//      again and again, by more than it grows meanwhile. Otherwise nothing tells a leak from a
//      single step in which every layer keeps something for backward.
//
// Of more than 128 only every n-th is kept, counted from the last one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

struct Boundaries {
  std::string
      name;  // "step", of the annotation, "optimizer step, by its stacks", of calls, or "cycle"
  std::vector<std::uint32_t> events;  // each the moment before this event of the device, ascending;
                                      // empty if growth can't be judged
  bool are_calls = false;             // of a module, in a program that trains nothing
  std::uint32_t steps_each = 1;       // between one and the next
  std::size_t steps = 0;              // found, of which these are kept
  std::string why_none;               // why there are none: one sentence
};

Boundaries find_boundaries(const model::Trace& trace, const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
