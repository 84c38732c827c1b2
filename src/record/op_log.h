// What a thread's running outermost operator has allocated so far: its phase may be told with
// hindsight.
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
  std::uint32_t thread = 0;
  std::uint32_t op_instance = 0;
  std::vector<OpAllocation> allocations;

  // Begins anew when this is another operator.
  void enter(std::uint32_t of_thread, std::uint32_t of_op_instance) {
    if (thread == of_thread && op_instance == of_op_instance) return;
    thread = of_thread;
    op_instance = of_op_instance;
    allocations.clear();
  }
};

}  // namespace plimsoll::record
