// How the machine packs values into memo slots, and reads numbers. Private to its two source files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "readers/torch_snapshot/pickle_value.h"

namespace plimsoll::readers::torch_snapshot {

// With less input than this in the window, the machine requests more.
inline constexpr std::size_t kLeastWindow = 64;

inline constexpr int kTagShift = 56;
inline constexpr std::uint64_t kBitsMask = (std::uint64_t{1} << kTagShift) - 1;
// The top byte of a slot whose value is in the wide memo, because it needs all 64 bits.
inline constexpr std::uint64_t kWide = std::uint64_t{0xFF} << kTagShift;

inline bool is_fresh(Tag tag) { return tag == Tag::kFreshList || tag == Tag::kFreshDict; }
inline bool is_wide(Tag tag) { return tag == Tag::kInt || tag == Tag::kUint || tag == Tag::kFloat; }

// A memo slot that can be pushed unchanged.
inline bool is_plain(std::uint64_t slot) {
  return (slot & kWide) != kWide && !is_fresh(static_cast<Tag>(slot >> kTagShift));
}

inline std::uint64_t pack(Tag tag, std::uint64_t bits) {
  return static_cast<std::uint64_t>(tag) << kTagShift | bits;
}
inline Value unpack(std::uint64_t slot) {
  return Value{static_cast<Tag>(slot >> kTagShift), kNoMemo, slot & kBitsMask};
}

inline Value integer(std::int64_t value) {
  return Value{Tag::kInt, kNoMemo, static_cast<std::uint64_t>(value)};
}

// Pickle is little-endian, and so are all supported machines.
template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace plimsoll::readers::torch_snapshot
