// The steps of optimizers in C++ programs. Those of torch's own optimizers are found without a
// change of the program (program_optimizers.cc); for others, create an OptimizerStep.
#pragma once

#include <torch/optim/optimizer.h>

#include <optional>
#include <string>

#include "plimsoll/recorder.h"

namespace plimsoll::libtorch {

// While it exists, this thread is in a step of the optimizer. It tags the parameters, gradients and
// state by name, and ends a step of the training loop, unless the program marks its own or another
// optimizer does so. Of nested ones, only the outermost counts. Does nothing while nothing is
// recorded, and never throws.
class OptimizerStep {
 public:
  explicit OptimizerStep(torch::optim::Optimizer& optimizer) noexcept;
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  ~OptimizerStep();

  // What could not be recorded in a step since the last call; empty if there is nothing.
  static std::string take_error();

 private:
  torch::optim::Optimizer& optimizer_;
  std::optional<OptimizerPhase> phase_;  // of the outermost one
};

}  // namespace plimsoll::libtorch
