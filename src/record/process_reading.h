// Readings of this process's memory: of the device "cpu", `own` is the resident set and `highest`
// the most that it has ever been. Compared with the tensors, they show how much of the process
// those explain. Each recording has a reading from its start and one from its end; programs with
// steps have one after 3, 6, 12, 24, … steps as well, others after as many calls of their models.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {

// Calls `emit` with each figure of a reading, or with none if Linux does not reveal them. Takes
// about 0.1 ms.
void read_process(const std::function<void(plimsoll_figure, std::uint64_t bytes)>& emit) noexcept;

// Counts steps, or the calls of models until there are steps, and names those after which a reading
// is due. Any thread may call it.
class ReadingSteps {
 public:
  void begin() noexcept { steps_.store(0, std::memory_order_relaxed); }
  bool is_due_after_step() noexcept {
    if (are_calls_.exchange(false, std::memory_order_relaxed)) begin();
    return is_due();
  }
  bool is_due_after_call() noexcept {
    are_calls_.store(true, std::memory_order_relaxed);
    return is_due();
  }

 private:
  // By then optimizers have their state, and libraries what they allocate at first use.
  static constexpr std::uint64_t kFirst = 3;

  bool is_due() noexcept {
    const std::uint64_t steps = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
    return steps % kFirst == 0 && std::has_single_bit(steps / kFirst);
  }

  std::atomic<std::uint64_t> steps_{0};
  std::atomic<bool> are_calls_{false};
};

}  // namespace plimsoll::record
