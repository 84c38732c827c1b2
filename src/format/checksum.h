// The checksum of a trace file: XXH64 with seed 0, as specified at xxhash.org, truncated to its low
// 32 bits. It is fast enough (many GB/s) to check every block.
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
