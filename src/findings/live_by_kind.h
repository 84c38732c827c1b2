// The live bytes of a device at one point in time, by purpose.
#pragma once

#include <cstdint>
#include <string>

#include "findings/rules.h"

namespace plimsoll::findings {

struct LiveByKind {
  std::uint64_t activations = 0;
  std::uint64_t activation_gradients = 0;
  std::uint64_t parameters = 0;  // and buffers
  std::uint64_t gradients = 0;   // of parameters
  std::uint64_t optimizer_state = 0;
  std::uint64_t all = 0;  // including everything else, and unknown memory
};

// The live bytes after an event of the device. For a file without categories, only `all` is set.
LiveByKind live_by_kind(const Facts& facts, const DeviceFacts& device, std::int64_t event);

// "activations 2.0 GiB, parameters 1.0 GiB": the non-empty kinds, largest first.
std::string kinds_text(const LiveByKind& live);

}  // namespace plimsoll::findings
