// What hindsight shows of each allocation.
#pragma once

#include <cstdint>

namespace plimsoll::readers::native {

// What is known of an allocation besides its events, whose rows are among the builder's pairs.
struct Allocation {
  std::uint32_t tensor = 0;  // id, of the role of highest precedence that it was tagged with
  std::uint8_t role = 0;
  std::uint8_t phase = kPhaseOfSite;
  std::uint8_t device = 0;
  std::uint8_t flags = 0;

  static constexpr std::uint8_t kPhaseOfSite = 255;
  static constexpr std::uint8_t kInOp = 1, kIsAdopted = 2, kIsTagged = 4, kIsPending = 8;
};

}  // namespace plimsoll::readers::native
