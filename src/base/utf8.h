// UTF-8 (RFC 3629: no overlong forms, no surrogates): where a well-formed sequence ends, and which
// characters are invisible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::base {

// Length of the well-formed sequence at the front of `text` (1 to 4), or 0 if there is none.
inline std::size_t utf8_sequence_length(std::string_view text) {
  auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto continues = [&](std::size_t i) { return (at(i) & 0xC0u) == 0x80u; };
  const unsigned lead = at(0);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (lead == 0xE0 && at(1) < 0xA0) return 0;
    if (lead == 0xED && at(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (lead == 0xF0 && at(1) < 0x90) return 0;
    if (lead == 0xF4 && at(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// The code point of a well-formed sequence.
inline std::uint32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  std::uint32_t value = lead & (0xFFu >> (sequence.size() + 1));
  for (const char byte : sequence.substr(1))
    value = value << 6 | (static_cast<unsigned char>(byte) & 0x3Fu);
  return value;
}

// Whether a character controls a terminal, or changes or hides its neighbors: C0, DEL, C1; line
// separators; direction marks, embeddings and isolates; the byte order mark; annotations; tags and
// other shapeless characters of plane 14.
inline bool is_unprintable(std::uint32_t point) {
  struct Range {
    std::uint32_t first;
    std::uint32_t last;
  };
  constexpr std::array<Range, 10> kRanges{{{0, 0x1F},
                                           {0x7F, 0x9F},
                                           {0xAD, 0xAD},
                                           {0x061C, 0x061C},
                                           {0x200B, 0x200F},
                                           {0x2028, 0x202E},
                                           {0x2060, 0x206F},
                                           {0xFEFF, 0xFEFF},
                                           {0xFFF9, 0xFFFB},
                                           {0xE0000, 0xE0FFF}}};
  for (const Range& range : kRanges) {
    if (point >= range.first && point <= range.last) return true;
  }
  return false;
}

// At most this many bytes, cut between characters, not within one.
inline std::string_view utf8_prefix(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return text.substr(0, end);
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// The text with \xHH in place of each byte that is not UTF-8 or would be invisible.
inline std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view front = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(front.size());
    if (length != 0 && !is_unprintable(code_point(front))) {
      out += front;
      continue;
    }
    for (const char byte : front) {
      const auto value = static_cast<unsigned char>(byte);
      out += {'\\', 'x', kDigits[value >> 4], kDigits[value & 0xFu]};
    }
  }
  return out;
}

}  // namespace plimsoll::base
