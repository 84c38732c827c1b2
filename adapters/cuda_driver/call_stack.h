// Who asked: the native stack of the calling thread, as a stack of the recorder's.
#pragma once

#include <cstdint>

namespace plimsoll::cuda_driver {

// Innermost first, without our own frames, at most 64. Each frame tells the shared library as its
// file and the function, or "+0x" and the offset in the library where it has no name. 0: there is
// none. A stack that was met before costs its unwinding alone.
std::uint32_t call_stack() noexcept;

}  // namespace plimsoll::cuda_driver
