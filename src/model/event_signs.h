// How an event changes the running totals of its device, in multiples of its size: +1, -1 or 0.
// This is a table because the order of allocs and frees is unpredictable, and a mispredicted branch
// costs more than a few multiplications.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/events.h"

namespace plimsoll::model {

// Modulo 2^64: sums wrap instead of overflowing, because a hostile file may have any size.
struct Signs {
  std::uint64_t allocated = 0;  // alloc to free_requested
  std::uint64_t active = 0;     // alloc to free_completed
  std::uint64_t reserved = 0;   // segments
};

constexpr Signs signs_of(Action action) {
  constexpr std::uint64_t kPlus = 1;
  constexpr std::uint64_t kMinus = ~std::uint64_t{0};  // -1, modulo 2^64
  switch (action) {
    case Action::kAlloc:
      return {.allocated = kPlus, .active = kPlus};
    case Action::kFreeRequested:
      return {.allocated = kMinus};
    case Action::kFreeCompleted:
      return {.active = kMinus};
    case Action::kFree:
      return {.allocated = kMinus, .active = kMinus};
    case Action::kSegmentAlloc:
    case Action::kSegmentMap:
      return {.reserved = kPlus};
    case Action::kSegmentFree:
    case Action::kSegmentUnmap:
      return {.reserved = kMinus};
    case Action::kSnapshot:
    case Action::kOom:
    case Action::kAnnotate:
    case Action::kUnknown:
      break;
  }
  return {};
}

inline constexpr std::size_t kActionCount = static_cast<std::size_t>(Action::kUnknown) + 1;
inline constexpr auto kSigns = [] {
  std::array<Signs, kActionCount> signs{};
  for (std::size_t i = 0; i < kActionCount; ++i) signs[i] = signs_of(static_cast<Action>(i));
  return signs;
}();

}  // namespace plimsoll::model
