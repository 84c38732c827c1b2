// Counts the inputs that a fuzz target's reader takes for valid. Seeds that are all refused would
// fuzz the first check alone: the replay of seeds then fails (replay_main.cc).
#pragma once

#include <cstddef>

namespace plimsoll::fuzz {

inline std::size_t accepted = 0;

inline void accept() { ++accepted; }

}  // namespace plimsoll::fuzz
