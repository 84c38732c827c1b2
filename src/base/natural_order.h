// The order in which names are listed: numbers in them are compared by value, so that "layers.2"
// precedes "layers.10". A path precedes everything below it.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::base {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The digits at the start of `text`, without leading zeros.
inline std::string_view leading_number(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::size_t begin = 0;
  while (begin + 1 < end && text[begin] == '0') ++begin;
  return text.substr(begin, end - begin);
}

// A total order: names that differ only in leading zeros are ordered by their characters.
inline bool natural_less(std::string_view a, std::string_view b) {
  const auto rank = [](char c) { return c == '.' ? 0 : static_cast<unsigned char>(c) + 1; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view left = leading_number(a.substr(i)),
                             right = leading_number(b.substr(j));
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      i = static_cast<std::size_t>(left.data() - a.data()) + left.size();
      j = static_cast<std::size_t>(right.data() - b.data()) + right.size();
      continue;
    }
    if (a[i] != b[j]) return rank(a[i]) < rank(b[j]);
    ++i;
    ++j;
  }
  const std::size_t left = a.size() - i, right = b.size() - j;
  return left != right ? left < right : a < b;
}

struct NaturalLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return natural_less(a, b); }
};

}  // namespace plimsoll::base
