// The steps of an optimizer in a C++ program: their phase, the names of parameters, gradients and
// state, and where steps of the training loop end. An error here must not stop the training.
#pragma once

#include <torch/optim/optimizer.h>

#include <exception>
#include <optional>
#include <string>

#include "plimsoll/recorder.h"

namespace plimsoll::libtorch {

// While it exists, this thread is in the optimizer's step. Of nested ones, only the outermost
// counts. Its end tags the state, and ends a step of the training loop: that of the optimizer that
// marks the steps, unless the program marks its own.
class OptimizerStep {
 public:
  explicit OptimizerStep(torch::optim::Optimizer& optimizer);
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  ~OptimizerStep();

  // Why something is not recorded, since the last call; empty if all is.
  static std::string take_error();

 private:
  torch::optim::Optimizer& optimizer_;
  bool is_outermost_ = false;
  std::optional<OptimizerPhase> phase_;
};

}  // namespace plimsoll::libtorch
