// Which of several optimizers ends the steps of the training loop.
#pragma once

#include <set>
#include <utility>

namespace plimsoll::libtorch {

// Optimizers that step in turn, as a generator and its discriminator, make one step of the loop. It
// ends with the first of them: with one that has stepped since the last end, or that took no part
// in the round before, because another part of the training has begun. Not thread-safe.
class SteppingOptimizer {
 public:
  // Whether the step that `optimizer` has just made ends a step of the loop.
  bool ends_step(const void* optimizer) {
    const bool is_next_round = round_.contains(optimizer);
    const bool is_new = !round_before_.empty() && !round_before_.contains(optimizer);
    if (!round_.empty() && !is_next_round && !is_new) {
      round_.insert(optimizer);
      return false;
    }
    round_before_ = std::exchange(round_, {optimizer});
    if (!is_next_round) round_before_.clear();  // the others of the new part are still unknown
    return true;
  }
  void forget(const void* optimizer) {
    round_.erase(optimizer);
    round_before_.erase(optimizer);
  }

 private:
  // Those that have stepped since a step of the loop ended, and those before. Not owned.
  std::set<const void*> round_, round_before_;
};

}  // namespace plimsoll::libtorch
