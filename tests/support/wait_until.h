// Waits in tests for the work of other threads and processes.
#pragma once

#include <chrono>
#include <thread>

namespace plimsoll::tests {

// Only a condition that never becomes true takes this long, even on a loaded machine.
inline constexpr std::chrono::minutes kLongestWait{2};
inline constexpr std::chrono::nanoseconds::rep kLongestWaitNs =
    std::chrono::nanoseconds(kLongestWait).count();

// Returns false if `condition` is still false after kLongestWait. Allocates no memory.
template <typename Condition>
[[nodiscard]] bool wait_until(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace plimsoll::tests
