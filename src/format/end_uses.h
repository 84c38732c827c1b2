// The codec of the last uses of freed memory. Training repeats, so most uses are predicted, and
// those take one bit. Encoder and decoder have one prediction for each block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "format/records.h"
#include "format/wire.h"

namespace plimsoll::format {

// Predicts what followed the same use at a free of memory of the same age.
class UsePrediction {
 public:
  void begin_block() noexcept {
    *this = {};
    table_.fill(kUsedUntilFreed);
  }
  // A free or free requested that is not in its operator: the number of allocations back.
  void freed(std::uint64_t back) noexcept { backs_[freed_++ % EndUses::kMost] = back; }

  // Writes at most kMostBytes: the uses of the last frees.
  static constexpr std::size_t kMostBytes = 3 + EndUses::kMost * 7;
  std::byte* put(std::byte* at, const EndUses& uses) noexcept {
    *at = static_cast<std::byte>(uses.count);
    std::byte* end = at + 3;
    unsigned bits = 0;
    for (std::size_t i = 0; i < uses.count; ++i) {
      const EndUse& use = uses.entries[i];
      EndUse& predicted = predicted_for(i, uses.count);
      if (predicted != use) {
        bits |= 1u << i;
        end = put(end, use);
      }
      last_ = predicted = use;
    }
    at[1] = static_cast<std::byte>(bits & 255u);
    at[2] = static_cast<std::byte>(bits >> 8U);
    return end;
  }

  // Unchecked reads; the caller must compare `at` with the end.
  EndUses take(const std::byte*& at) noexcept {
    EndUses uses;
    const auto byte = [&] { return std::to_integer<std::uint8_t>(*at++); };
    uses.count = std::min<std::uint8_t>(byte(), EndUses::kMost);
    unsigned bits = byte();
    bits |= unsigned{byte()} << 8U;
    for (std::size_t i = 0; i < uses.count; ++i) {
      EndUse& use = uses.entries[i];
      EndUse& predicted = predicted_for(i, uses.count);
      use = predicted;
      if ((bits >> i & 1u) != 0) take(at, use);
      last_ = predicted = use;
    }
    return uses;
  }

 private:
  static constexpr EndUse kUsedUntilFreed{.age_plus_one = 1, .gap = 0};
  static constexpr unsigned kFollows = 15;  // in a half of the first byte
  static constexpr unsigned kShortNeverUsed = 14;

  // Age and gap in half a byte each, unless they are large.
  static std::byte* put(std::byte* at, const EndUse& use) noexcept {
    const unsigned age = std::min(use.age_plus_one, kFollows);
    const unsigned gap = use.gap == kNeverUsed       ? kShortNeverUsed
                         : use.gap < kShortNeverUsed ? use.gap
                                                     : kFollows;
    *at++ = static_cast<std::byte>(age << 4U | gap);
    if (age == kFollows) at = put_varint(at, use.age_plus_one - kFollows);
    if (gap == kFollows) *at++ = static_cast<std::byte>(use.gap);
    return at;
  }
  static void take(const std::byte*& at, EndUse& use) noexcept {
    const auto first = std::to_integer<unsigned>(*at++);
    use.age_plus_one = first >> 4U;
    if (use.age_plus_one == kFollows) {
      use.age_plus_one += static_cast<std::uint32_t>(take_varint(at));
    }
    const unsigned gap = first & 15U;
    use.gap = gap == kShortNeverUsed ? kNeverUsed : static_cast<std::uint8_t>(gap);
    if (gap == kFollows) use.gap = std::to_integer<std::uint8_t>(*at++);
  }

  // For the ith of the last `count` frees.
  EndUse& predicted_for(std::size_t i, std::size_t count) noexcept {
    const std::uint64_t back = backs_[(freed_ - count + i) % EndUses::kMost];
    const std::uint64_t mixed = back * 31 + last_.age_plus_one * std::uint64_t{7} + last_.gap;
    return table_[mixed * 0x9E3779B97F4A7C15U >> 54U];
  }

  std::array<EndUse, 1024> table_{};
  std::array<std::uint64_t, EndUses::kMost> backs_{};
  std::size_t freed_ = 0;
  EndUse last_;
};

}  // namespace plimsoll::format
