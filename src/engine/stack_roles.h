// What the program was doing where a stack was taken, as far as its frames show it. PyTorch's
// snapshots record stacks and nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::engine {

enum class Activity : std::uint8_t {
  kProgram,        // Python outside of everything below
  kForward,        // inside a module's call or a function named forward
  kBackward,       // autograd runs: its native frames, or no Python frame at all
  kOptimizer,      // inside an optimizer's step
  kStateBegins,    // inside the step's first part, which makes the state (_init_group)
  kOptimizerMade,  // inside __init__ of a file that is named for optimizers
  kModelMade,      // inside __init__, initialization, Module.to() and the like, loading
  kData,           // inside torch.utils.data
  kWorkspace       // inside cuBLAS's set-up, which keeps memory of its own
};

// By stack.
std::vector<Activity> activities_of_stacks(const model::Trace& trace);

}  // namespace plimsoll::engine
