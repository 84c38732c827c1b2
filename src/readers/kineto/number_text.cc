#include "readers/kineto/number_text.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace plimsoll::readers::kineto {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

// A decimal number as digits * 10^exponent.
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
  bool is_negative = false;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Digits that no longer fit only change the exponent.
void add_digit(Decimal& number, char c) {
  if (number.digits > (kLargest - 9) / 10) {
    number.exponent = std::min(number.exponent + 1, 1000);
  } else {
    number.digits = number.digits * 10 + static_cast<std::uint64_t>(c - '0');
  }
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal number;
  if (text.starts_with('-') || text.starts_with('+')) {
    number.is_negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  while (!text.empty() && is_digit(text.front())) {
    add_digit(number, text.front());
    text.remove_prefix(1);
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    while (!text.empty() && is_digit(text.front())) {
      const int before = number.exponent;
      add_digit(number, text.front());
      number.exponent = number.exponent == before ? before - 1 : before;
      text.remove_prefix(1);
    }
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(text.substr(1).starts_with('+') ? 2 : 1);
    int power = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), power);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    number.exponent += std::clamp(power, -1000, 1000);
    text = {};
  }
  if (!text.empty()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> nanoseconds_of_microseconds(std::string_view text) {
  const auto number = parse_decimal(text);
  if (!number) return std::nullopt;
  std::uint64_t value = number->digits;
  int exponent = number->exponent + 3;
  for (; exponent < 0 && value > 0; ++exponent) value /= 10;
  for (; exponent > 0 && value > 0; --exponent) {
    if (value > kLargest / 10) return std::nullopt;
    value *= 10;
  }
  const auto magnitude = static_cast<std::int64_t>(value);
  return number->is_negative ? -magnitude : magnitude;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  std::int64_t value = 0;
  const auto [at, error] = std::from_chars(begin, end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> bits_of_number(std::string_view text) {
  if (const auto value = whole_number(text)) return value;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  std::uint64_t bits = 0;
  if (const auto [at, error] = std::from_chars(begin, end, bits);
      error == std::errc() && at == end) {
    return static_cast<std::int64_t>(bits);
  }
  return std::nullopt;
}

}  // namespace plimsoll::readers::kineto
