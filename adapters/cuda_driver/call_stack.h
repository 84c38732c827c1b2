// The native stack of the calling thread, as a stack id of the recorder.
#pragma once

#include <cstdint>

namespace plimsoll::cuda_driver {

// Innermost first, without our own frames, at most 64. Each frame has the shared library as its
// file, and the function, or "+0x" and the offset in the library if it has no name. 0: no stack.
// For a stack seen before, only the unwinding is paid again.
std::uint32_t call_stack() noexcept;

}  // namespace plimsoll::cuda_driver
