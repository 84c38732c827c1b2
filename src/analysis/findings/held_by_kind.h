// What is live on a device at one point in time, by what it is for.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/findings/rules.h"

namespace plimsoll::analysis::findings {

struct HeldByKind {
  std::uint64_t activations = 0;
  std::uint64_t activation_gradients = 0;
  std::uint64_t parameters = 0;  // and buffers
  std::uint64_t gradients = 0;   // of parameters
  std::uint64_t optimizer_state = 0;
  std::uint64_t all = 0;  // also what is none of these, or unknown
};

// After an event of the device. Of a file without categories only `all` is filled.
HeldByKind held_by_kind(const Facts& facts, const DeviceFacts& device, std::int64_t event);

// "activations 2.0 GiB, parameters 1.0 GiB": those that are held, largest first.
std::string kinds_text(const HeldByKind& held);

}  // namespace plimsoll::analysis::findings
