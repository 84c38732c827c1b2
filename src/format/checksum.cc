#include "format/checksum.h"

#include <bit>

#include "format/wire.h"

namespace plimsoll::format {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

std::uint64_t round(std::uint64_t state, std::uint64_t input) noexcept {
  return std::rotl(state + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t state) noexcept {
  return (hash ^ round(0, state)) * kPrime1 + kPrime4;
}

std::uint64_t finish(std::uint64_t hash, const std::byte* at, std::size_t left) noexcept {
  for (; left >= 8; at += 8, left -= 8) {
    hash = std::rotl(hash ^ round(0, load_u64(at)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (std::uint64_t{load_u32(at)} * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) {
    hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*at) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = kPrime5;
  if (left >= 32) {
    std::uint64_t a = kPrime1 + kPrime2, b = kPrime2, c = 0, d = 0 - kPrime1;
    for (; left >= 32; at += 32, left -= 32) {
      a = round(a, load_u64(at));
      b = round(b, load_u64(at + 8));
      c = round(c, load_u64(at + 16));
      d = round(d, load_u64(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  return finish(hash + bytes.size(), at, left);
}

}  // namespace plimsoll::format
