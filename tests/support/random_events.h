// Random streams of trace file events: plausible ones, as a recorder makes them, and wild ones,
// where every field is anything.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/trace_file.h"

namespace plimsoll::tests {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  // Any number, small and extreme ones as likely as those between.
  std::uint64_t wild() {
    switch (below(5)) {
      case 0:
        return below(4);
      case 1:
        return ~below(4);
      default:
        return random_() >> below(64);
    }
  }

  AnyEvent wild_event() {
    const auto time = static_cast<std::int64_t>(wild());
    const auto thread = static_cast<std::uint32_t>(wild());
    switch (below(8)) {
      case 0:
      case 1:
        return format::Alloc{time,         thread, static_cast<std::uint32_t>(below(100)),
                             wild(),       wild(), wild(),
                             below(2) == 0};
      case 2: {
        const std::uint64_t serial = wild();
        return format::Free{time, thread, serial, serial == format::kNoSerial ? wild() : 0,
                            serial != format::kNoSerial && below(2) == 0};
      }
      case 3:
        return format::Tag{wild(), static_cast<std::uint32_t>(wild())};
      case 4:
        return format::SetPhase{wild(), static_cast<std::uint8_t>(wild())};
      case 5:
        return format::Mark{time, thread, static_cast<std::uint8_t>(wild()), wild()};
      case 6:
        return format::Dropped{time, thread, wild()};
      default:
        return format::Evicted{wild()};
    }
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace plimsoll::tests
