// stranded_memory, second kind: far more memory was reserved than was ever live, in cached blocks
// that nothing pins. The allocator keeps blocks of every shape that it has served, and returns them
// to the driver only when the device is full.
#pragma once

#include <cstdint>
#include <optional>

#include "findings/rules.h"

namespace plimsoll::findings {

// The threshold for reserved memory that is not used: a quarter of it, if that exceeds what a small
// change of the batch would need. Healthy training wastes up to a sixth, because of rounding, and
// because some blocks of one phase do not suit another.
inline constexpr std::uint64_t kMuchReservedBytes = std::uint64_t{256} << 20;
inline constexpr double kMuchOfReserved = 0.25;

// Whether the totals of reserved and live bytes can be compared. Events and segments must agree (if
// they come from different points in time, baselines are negative), and no out-of-memory finding,
// which is more specific, may report the same memory.
bool is_reserved_judged(const DeviceFacts& device);

// Peak of reserved bytes minus peak of live bytes: how much less would suffice if each block could
// serve each request.
std::uint64_t excess_bytes(const report::DeviceReport& device);

std::optional<report::Finding> cached_memory(const Facts& facts, const DeviceFacts& device);

}  // namespace plimsoll::findings
