// The checksum of the trace file: XXH64 with seed 0, as xxhash.org specifies it, cut to its low 32
// bits. Quick enough (many GB/s) that blocks are always checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::format {

std::uint64_t xxh64(std::span<const std::byte> bytes) noexcept;

inline std::uint32_t checksum(std::span<const std::byte> bytes) noexcept {
  return static_cast<std::uint32_t>(xxh64(bytes));
}

}  // namespace plimsoll::format
