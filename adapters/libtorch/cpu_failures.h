// Requests that the CPU's allocator could not meet.
#pragma once

#include <cstddef>

namespace plimsoll::libtorch {

// Records it with what this thread is doing, and what the machine had left.
void record_failed_allocation(std::size_t size_bytes) noexcept;

}  // namespace plimsoll::libtorch
