#include "base/text_decoder.h"

#include <cstddef>
#include <utility>

namespace plimsoll::base {
namespace {

constexpr std::size_t kHeadBytes = 4;  // enough for any byte order mark, and for two units
constexpr std::uint32_t kHasHalf = 0x100;
constexpr std::uint32_t kReplacement = 0xFFFD;

void append_code_point(std::uint32_t point, std::string& utf8) {
  const auto continuation = [&](int shift) {
    utf8 += static_cast<char>(0x80 | ((point >> shift) & 0x3F));
  };
  if (point < 0x80) {
    utf8 += static_cast<char>(point);
  } else if (point < 0x800) {
    utf8 += static_cast<char>(0xC0 | (point >> 6));
    continuation(0);
  } else if (point < 0x10000) {
    utf8 += static_cast<char>(0xE0 | (point >> 12));
    continuation(6);
    continuation(0);
  } else {
    utf8 += static_cast<char>(0xF0 | (point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace

void TextDecoder::feed(std::string_view bytes, std::string& utf8) {
  if (encoding_ != Encoding::kUnknown) return take(bytes, utf8);
  head_ += bytes;
  if (head_.size() < kHeadBytes) return;
  decide();
  take(std::exchange(head_, {}), utf8);
}

void TextDecoder::finish(std::string& utf8) {
  if (encoding_ != Encoding::kUnknown) return;
  decide();
  take(std::exchange(head_, {}), utf8);
}

void TextDecoder::decide() {
  // No text contains a zero byte, and that of a log begins with ASCII.
  const auto is_zero = [&](std::size_t at) { return head_[at] == '\0'; };
  const bool has_units = head_.size() >= kHeadBytes;
  encoding_ = Encoding::kUtf8;
  if (head_.starts_with("\xFF\xFE")) {
    encoding_ = Encoding::kUtf16Little;
    head_.erase(0, 2);
  } else if (head_.starts_with("\xFE\xFF")) {
    encoding_ = Encoding::kUtf16Big;
    head_.erase(0, 2);
  } else if (head_.starts_with("\xEF\xBB\xBF")) {
    head_.erase(0, 3);
  } else if (has_units && !is_zero(0) && is_zero(1) && !is_zero(2) && is_zero(3)) {
    encoding_ = Encoding::kUtf16Little;
  } else if (has_units && is_zero(0) && !is_zero(1) && is_zero(2) && !is_zero(3)) {
    encoding_ = Encoding::kUtf16Big;
  }
}

void TextDecoder::take(std::string_view bytes, std::string& utf8) {
  if (encoding_ == Encoding::kUtf8) {
    utf8 += bytes;
    return;
  }
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if ((half_unit_ & kHasHalf) == 0) {
      half_unit_ = value | kHasHalf;
      continue;
    }
    const std::uint32_t first = half_unit_ & 0xFF;
    half_unit_ = 0;
    take_unit(encoding_ == Encoding::kUtf16Little ? (first | std::uint32_t{value} << 8)
                                                  : (first << 8 | value),
              utf8);
  }
}

void TextDecoder::take_unit(std::uint32_t unit, std::string& utf8) {
  const std::uint32_t high = std::exchange(high_surrogate_, 0);
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_surrogate_ = unit;
  } else if (unit >= 0xDC00 && unit < 0xE000) {
    append_code_point(
        high == 0 ? kReplacement : 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00), utf8);
  } else {
    append_code_point(unit, utf8);
  }
}

}  // namespace plimsoll::base
