// What is known about each allocation in hindsight, and its row in the model.
#pragma once

#include <array>
#include <cstdint>

#include "model/trace.h"

namespace plimsoll::readers::native {

// Facts about an allocation that supplement its row in the builder's lifetimes.
struct Allocation {
  std::uint32_t lifetime = 0;  // row of its device's lifetimes
  std::uint8_t role = 0;
  std::uint8_t phase = kPhaseOfSite;
  std::uint8_t device = 0;
  std::uint8_t flags = 0;

  static constexpr std::uint8_t kPhaseOfSite = 255;
  static constexpr std::uint8_t kInOp = 1, kIsAdopted = 2, kIsTagged = 4, kIsPending = 8,
                                kIsCollected = 16;
};

// The model's tables of a device, at a fixed address while the file is read; null: no events.
struct Tables {
  model::Events* events = nullptr;
  model::Lifetimes* lifetimes = nullptr;
};
using DeviceTables = std::array<Tables, 256>;  // by the file's device number

}  // namespace plimsoll::readers::native
