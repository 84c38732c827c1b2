// What hindsight shows of each allocation, and where the model has it.
#pragma once

#include <array>
#include <cstdint>

#include "model/trace.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::readers::native {

// What is known of an allocation, next to its row of the builder's lifetimes.
struct Allocation {
  std::uint32_t lifetime = 0;  // of its device
  std::uint8_t role = 0;
  std::uint8_t phase = kPhaseOfSite;
  std::uint8_t device = 0;
  std::uint8_t flags = 0;

  static constexpr std::uint8_t kPhaseOfSite = 255;
  static constexpr std::uint8_t kInOp = 1, kIsAdopted = 2, kIsTagged = 4, kIsPending = 8;
};

// Of what a tensor's tag says the memory is for: the highest holds. KNOWN says nothing of it.
inline unsigned precedence(std::uint8_t role) {
  return role == PLIMSOLL_ROLE_KNOWN || role > PLIMSOLL_ROLE_INPUT ? 0 : 255u - role;
}

// The model's tables of a device, which stay where they are while the file is read; null: no
// events.
struct Tables {
  model::Events* events = nullptr;
  model::Lifetimes* lifetimes = nullptr;
};
using DeviceTables = std::array<Tables, 256>;  // by the file's number of the device

}  // namespace plimsoll::readers::native
