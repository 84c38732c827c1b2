// stranded_memory, second kind: far more memory was reserved than was ever live, in cached blocks
// that nothing pins. The allocator keeps blocks of every shape that it has served, and returns them
// to the driver only when the device is full.
#pragma once

#include <cstdint>
#include <optional>

#include "findings/rules.h"

namespace plimsoll::findings {

// Whether the totals of reserved and live bytes can be compared. Events and segments must agree (if
// they come from different points in time, baselines are negative), and no out-of-memory finding,
// which is more specific, may report the same memory.
bool is_reserved_judged(const DeviceFacts& device);

// Peak of reserved bytes minus peak of live bytes: how much less would suffice if each block could
// serve each request.
std::uint64_t excess_bytes(const report::DeviceReport& device);

// Empty if less than `least` bytes are cached in vain.
std::optional<report::Finding> cached_memory(const Facts& facts, const DeviceFacts& device,
                                             std::uint64_t least);

}  // namespace plimsoll::findings
