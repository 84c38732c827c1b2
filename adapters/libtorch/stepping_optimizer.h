// Which of several optimizers ends the steps of the training loop.
#pragma once

#include <cstddef>

namespace plimsoll::libtorch {

// The first one that steps, as long as it is used. Not thread-safe.
class SteppingOptimizer {
 public:
  // Whether the step that `optimizer` has just made ends a step of the loop.
  bool ends_step(const void* optimizer) {
    if (stepping_ != optimizer &&
        (stepping_ == nullptr || ++steps_of_others_ > kMostStepsOfOthers)) {
      stepping_ = optimizer;
    }
    if (stepping_ != optimizer) return false;
    steps_of_others_ = 0;
    return true;
  }
  void forget(const void* optimizer) {
    if (stepping_ == optimizer) stepping_ = nullptr;
  }

 private:
  // Other optimizers' steps that the stepping one may wait for, as a generator waits for its
  // discriminator. After more steps, another part of the training has begun.
  static constexpr std::size_t kMostStepsOfOthers = 20;

  const void* stepping_ = nullptr;   // not owned
  std::size_t steps_of_others_ = 0;  // since its last step
};

}  // namespace plimsoll::libtorch
