// UTF-8, as far as we need it: where a well-formed sequence ends. RFC 3629 (no overlong forms, no
// surrogates).
#pragma once

#include <cstddef>
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

}  // namespace plimsoll::base
