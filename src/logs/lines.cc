#include "logs/lines.h"

#include <utility>

namespace plimsoll::logs {
namespace {

constexpr std::size_t kMarkBytes = 3;  // the longest byte order mark
constexpr std::uint32_t kHasHalf = 0x100;
constexpr std::uint32_t kReplacement = 0xFFFD;

}  // namespace

void LogLines::feed(std::string_view bytes) {
  if (encoding_ == Encoding::kUnknown) {
    head_ += bytes;
    if (head_.size() < kMarkBytes) return;
    decide();
    const std::string head = std::exchange(head_, {});
    take(head);
    return;
  }
  take(bytes);
}

void LogLines::finish() {
  if (encoding_ == Encoding::kUnknown) {
    decide();
    take(std::exchange(head_, {}));
  }
  if (!line_.empty()) end_line();
}

void LogLines::decide() {
  encoding_ = Encoding::kUtf8;
  if (head_.starts_with("\xFF\xFE")) encoding_ = Encoding::kUtf16Little;
  if (head_.starts_with("\xFE\xFF")) encoding_ = Encoding::kUtf16Big;
  if (encoding_ != Encoding::kUtf8) head_.erase(0, 2);
  if (head_.starts_with("\xEF\xBB\xBF")) head_.erase(0, 3);
}

void LogLines::take(std::string_view bytes) {
  if (encoding_ == Encoding::kUtf8) {
    for (const char byte : bytes) take_byte(byte);
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
                                                  : (first << 8 | value));
  }
}

void LogLines::take_unit(std::uint32_t unit) {
  const std::uint32_t high = std::exchange(high_surrogate_, 0);
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_surrogate_ = unit;
    return;
  }
  if (unit >= 0xDC00 && unit < 0xE000) {
    take_code_point(high == 0 ? kReplacement : 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
    return;
  }
  take_code_point(unit);
}

void LogLines::take_code_point(std::uint32_t point) {
  const auto continuation = [&](int shift) {
    take_byte(static_cast<char>(0x80 | ((point >> shift) & 0x3F)));
  };
  if (point < 0x80) {
    take_byte(static_cast<char>(point));
  } else if (point < 0x800) {
    take_byte(static_cast<char>(0xC0 | (point >> 6)));
    continuation(0);
  } else if (point < 0x10000) {
    take_byte(static_cast<char>(0xE0 | (point >> 12)));
    continuation(6);
    continuation(0);
  } else {
    take_byte(static_cast<char>(0xF0 | (point >> 18)));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

void LogLines::take_byte(char byte) {
  const bool was_return = std::exchange(after_return_, byte == '\r');
  if (byte == '\n' && was_return) return;
  if (byte == '\n' || byte == '\r') {
    end_line();
    return;
  }
  if (line_.size() == kLongestLine) {
    is_long_ = true;
    return;
  }
  line_ += byte;
}

void LogLines::end_line() {
  if (std::exchange(is_long_, false)) ++long_lines_;
  sink_(line_);
  line_.clear();
}

}  // namespace plimsoll::logs
