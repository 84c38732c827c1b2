// XXH64 with seed 0, as specified at xxhash.org. Its low 32 bits are the checksum of a trace file:
// it is fast enough (many GB/s) to check every block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::format {

std::uint64_t xxh64(std::span<const std::byte> bytes) noexcept;

inline std::uint32_t checksum(std::span<const std::byte> bytes) noexcept {
  return static_cast<std::uint32_t>(xxh64(bytes));
}

// The hash of a source line in a trace file.
inline std::uint64_t hash_of_source(std::string_view text) noexcept {
  return xxh64(std::as_bytes(std::span(text)));
}

}  // namespace plimsoll::format
