// The encoding of numbers in a trace file: little-endian, or varints (seven bits per byte, low bits
// first; the top bit means that more follow). Signed values are zigzagged first: 0, -1, 1, -2.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plimsoll::format {

inline constexpr std::size_t kMaxVarintBytes = 10;

template <typename T>
T swapped_on_big_endian(T value) noexcept {
  if constexpr (std::endian::native == std::endian::little) return value;
  T swapped = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    swapped = static_cast<T>(swapped << 8 | ((value >> (8 * i)) & 0xFF));
  }
  return swapped;
}

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return swapped_on_big_endian(value);
}

template <typename T>
std::byte* store(std::byte* at, T value) noexcept {
  value = swapped_on_big_endian(value);
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

inline std::uint32_t load_u32(const std::byte* at) noexcept { return load<std::uint32_t>(at); }
inline std::uint64_t load_u64(const std::byte* at) noexcept { return load<std::uint64_t>(at); }

inline std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

inline std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1)));
}

// `at` must have space for kMaxVarintBytes.
inline std::byte* put_varint(std::byte* at, std::uint64_t value) noexcept {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<std::byte>(value | 0x80);
  *at++ = static_cast<std::byte>(value);
  return at;
}

inline std::size_t varint_bytes(std::uint64_t value) noexcept {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

// kMaxVarintBytes must be readable at `at`, whatever they contain. Bits beyond 64 are dropped; our
// writers never produce them.
inline std::uint64_t take_varint(const std::byte*& at) noexcept {
  auto value = static_cast<std::uint64_t>(*at++);
  if (value < 0x80) return value;
  value &= 0x7F;
  for (unsigned shift = 7; shift < 70; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(*at++);
    value |= (byte & 0x7F) << (shift < 64 ? shift : 63);
    if (byte < 0x80) break;
  }
  return value;
}

}  // namespace plimsoll::format
