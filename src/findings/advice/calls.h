// Evidence and advice about activations of code that runs repeatedly before a backward frees its
// allocations.
#pragma once

#include <cstdint>
#include <string>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// Adds the line of the program that calls most of the forwards in `explanation`, if it does so
// repeatedly, and the memory that an earlier backward has left (create_graph=True). Steps about
// them come before those that the finding has.
void add_calls(const Peak& peak, Explanation& explanation);

// Whether the allocation's line is in a torch.autograd.Function of the program, which torch calls.
bool is_of_autograd_function(const Peak& peak, const PeakAllocation& allocation);

struct FunctionOfMost {
  std::string name;
  std::uint64_t bytes = 0;
  bool is_of_autograd = false;  // the forward of a torch.autograd.Function
};

// The function of the program that allocates most of `explanation`. It must not be a module's
// forward and must call no layer, so that it can run under a checkpoint. Empty if there is none.
FunctionOfMost function_of_most(const Peak& peak, const Explanation& explanation);

}  // namespace plimsoll::findings
