// The native stack of the calling thread, as a stack id of the recorder.
#pragma once

#include <cstdint>

namespace plimsoll::cuda_driver {

// Returns the id of at most 64 frames, innermost first, without those of this library; 0 if there
// is no stack. A frame's file is its shared library; its function is the symbol or, without one,
// "+0x" and the offset in the library. A stack that has been seen before costs only the unwinding.
std::uint32_t call_stack() noexcept;

}  // namespace plimsoll::cuda_driver
