// CRC-32C (Castagnoli), as used in TFRecord files.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll::tensorboard {

namespace detail {

inline constexpr std::array<std::uint32_t, 256> kCrc32c = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0x82F63B78U);
    table[byte] = value;
  }
  return table;
}();

}  // namespace detail

inline std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~std::uint32_t{0};
  for (const char byte : bytes) {
    value = detail::kCrc32c[(value ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (value >> 8);
  }
  return ~value;
}

// TensorFlow rotates and offsets the checksums of data that itself contains checksums.
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t value = crc32c(bytes);
  return ((value >> 15) | (value << 17)) + 0xA282EAD8U;
}

}  // namespace plimsoll::tensorboard
