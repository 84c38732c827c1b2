// Counts the inputs that a fuzz target's reader accepts. If every seed were refused, only the first
// check would be fuzzed: then the replay of seeds fails (replay_main.cc).
#pragma once

#include <cstddef>

namespace plimsoll::fuzz {

inline std::size_t accepted = 0;

inline void accept() { ++accepted; }

}  // namespace plimsoll::fuzz
