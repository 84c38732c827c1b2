// Infers what the program was doing when a stack was taken, from its frames, because PyTorch's
// snapshots record only stacks.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::attribution {

enum class Activity : std::uint8_t {
  kProgram,        // Python code that is none of the following
  kForward,        // inside a module's call or a function named forward
  kBackward,       // autograd is running: its native frames, or no Python frame at all
  kOptimizer,      // inside an optimizer's step
  kStateBegins,    // inside the step's first part, which creates the state (_init_group)
  kOptimizerMade,  // inside __init__ in a file named after optimizers
  kModelMade,      // inside __init__, initialization, loading, Module.to() and the like
  kData,           // inside torch.utils.data
  kWorkspace       // inside cuBLAS's setup, which retains a workspace
};

// Indexed by stack.
std::vector<Activity> activities_of_stacks(const model::Trace& trace);

}  // namespace plimsoll::attribution
