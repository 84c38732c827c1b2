// Lets operator new fail on demand. A program that links scarce_memory.cc has its operator new.
#pragma once

#include <atomic>

namespace plimsoll::tests {

// While it is set, operator new throws std::bad_alloc.
extern std::atomic<bool> memory_is_out;

}  // namespace plimsoll::tests
