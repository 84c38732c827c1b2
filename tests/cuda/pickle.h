// Minimal pickles of plain data, protocol 4, without frames and memo.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::tests::pickle {

using Items = std::vector<std::pair<std::string, std::string>>;

inline std::string number(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
inline std::string integer(std::uint64_t value) {
  return std::string("\x8a\x09") + number(value, 8) + std::string(1, '\0');  // LONG1
}
inline std::string signed_integer(std::int64_t value) {
  return std::string("\x8a\x08") + number(static_cast<std::uint64_t>(value), 8);
}
inline std::string real(double value) {  // BINFLOAT, big-endian
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::string text = "G";
  for (unsigned i = 8; i-- > 0;) text += static_cast<char>(bits >> (8 * i));
  return text;
}
inline std::string text(const std::string& value) { return "X" + number(value.size(), 4) + value; }
inline std::string boolean(bool value) { return value ? "\x88" : "\x89"; }
inline std::string pair(std::uint64_t first, std::uint64_t second) {
  return integer(first) + integer(second) + "\x86";
}
inline std::string list(const std::vector<std::string>& items) {
  std::string all = "](";
  for (const std::string& item : items) all += item;
  return all + "e";
}
inline std::string dict(const Items& items) {
  std::string all = "}(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return all + "u";
}
inline std::string file(const std::string& value) { return "\x80\x04" + value + "."; }

}  // namespace plimsoll::tests::pickle
