// Color: adds escape sequences to a text, or leaves it as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::text {

enum class Color : std::uint8_t { kOff, kOn };

enum class Style : std::uint8_t { kPlain, kBold, kDim, kCritical, kWarning, kInfo, kGood };

inline std::string styled(std::string_view text, Style style, Color color) {
  const char* code = nullptr;
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kCritical:
      code = "1;31";
      break;
    case Style::kWarning:
      code = "1;33";
      break;
    case Style::kInfo:
      code = "1;36";
      break;
    case Style::kGood:
      code = "1;32";
      break;
  }
  if (code == nullptr || color == Color::kOff || text.empty()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace plimsoll::text
