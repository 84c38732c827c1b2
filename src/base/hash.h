// Hashes for Plimsoll's own tables. They are never written to a file, so they may change at any
// time. hash_bytes reads eight bytes at a time and mixes them by a 64x64->128 multiplication (the
// scheme of wyhash).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plimsoll::base {

inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_u64(std::uint64_t value) {
  return hash_mix(value ^ 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u);
}

inline std::uint64_t hash_bytes(const void* data, std::size_t len, std::uint64_t seed = 0) {
  constexpr std::uint64_t kA = 0xA0761D6478BD642Fu, kB = 0xE7037ED1A0B428DBu;
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t state = seed ^ kA ^ len;
  std::uint64_t a = 0, b = 0;
  if (len >= 64) {  // two chains, so that one multiplication need not wait for the other
    std::uint64_t other = state ^ kB;
    std::uint64_t c = 0, d = 0;
    for (; len >= 32; at += 32, len -= 32) {
      std::memcpy(&a, at, 8);
      std::memcpy(&b, at + 8, 8);
      std::memcpy(&c, at + 16, 8);
      std::memcpy(&d, at + 24, 8);
      state = hash_mix(a ^ kB ^ state, b ^ kA);
      other = hash_mix(c ^ kA ^ other, d ^ kB);
    }
    state ^= other;
  }
  for (; len >= 16; at += 16, len -= 16) {
    std::memcpy(&a, at, 8);
    std::memcpy(&b, at + 8, 8);
    state = hash_mix(a ^ kB ^ state, b ^ kA);
  }
  a = b = 0;
  if (len >= 8) {
    std::memcpy(&a, at, 8);
    std::memcpy(&b, at + 8, len - 8);
  } else if (len > 0) {  // memcpy must not get the null pointer of an empty string
    std::memcpy(&a, at, len);
  }
  return hash_mix(a ^ kB ^ state, b ^ kA);
}

}  // namespace plimsoll::base
