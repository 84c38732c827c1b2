// Counts the inputs that a fuzz target's reader accepts. If it refused every seed, only its first
// check would be fuzzed; the replay of the seeds then fails (replay_main.cc).
#pragma once

#include <cstddef>

namespace plimsoll::fuzz {

inline std::size_t accepted = 0;

inline void accept() { ++accepted; }

}  // namespace plimsoll::fuzz
