// Reports failed requests of the CPU allocator.
#pragma once

#include <cstddef>

namespace plimsoll::libtorch {

// Records the failure with this thread's context and the machine's free memory.
void record_failed_allocation(std::size_t size_bytes) noexcept;

}  // namespace plimsoll::libtorch
