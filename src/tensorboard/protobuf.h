// The part of protobuf's wire format that event files need. A message is a string; fields are
// appended to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::tensorboard {

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline void put_raw_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
    out += static_cast<char>((value >> (8 * byte)) & 0xFF);
  }
}

inline void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_raw_varint(out, (field << 3) | static_cast<std::uint32_t>(wire));
}

inline void put_varint(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_key(out, field, Wire::kVarint);
  put_raw_varint(out, value);
}

// A string, bytes, or a message.
inline void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_raw_varint(out, bytes.size());
  out += bytes;
}

}  // namespace plimsoll::tensorboard
