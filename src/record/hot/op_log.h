// The allocations of a thread's running outermost operator, whose phase may be set retroactively.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::record {

struct OpAllocation {
  std::uint64_t serial = 0;
  std::uint64_t address = 0;
  std::uint32_t site = 0;
  std::uint8_t device = 0;
};

struct OpLog {
  static constexpr std::size_t kMost = 65'536;

  std::uint32_t thread = 0;
  std::uint32_t op_instance = 0;
  std::vector<OpAllocation> allocations;
  std::size_t most = kMost;  // capacity; when full, entries that are no longer live are removed

  // Clears the log if the operator differs from the current one.
  void enter(std::uint32_t of_thread, std::uint32_t of_op_instance) {
    if (thread == of_thread && op_instance == of_op_instance) return;
    thread = of_thread;
    op_instance = of_op_instance;
    allocations.clear();
    most = kMost;
  }
};

}  // namespace plimsoll::record
