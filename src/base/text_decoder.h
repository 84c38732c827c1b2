// Converts text to UTF-8. The text arrives in pieces of any size: in UTF-8, or in UTF-16 as
// PowerShell's `>` writes it. A byte order mark states the encoding; without one, zero bytes do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::base {

class TextDecoder {
 public:
  // Both append to `utf8`. UTF-8 is appended unchanged, valid or not, without its byte order mark.
  void feed(std::string_view bytes, std::string& utf8);
  void finish(std::string& utf8);  // after the last piece

 private:
  enum class Encoding : std::uint8_t { kUnknown, kUtf8, kUtf16Little, kUtf16Big };

  void decide();
  void take(std::string_view bytes, std::string& utf8);
  void take_unit(std::uint32_t unit, std::string& utf8);  // of UTF-16

  Encoding encoding_ = Encoding::kUnknown;
  std::string head_;             // while the encoding is unknown
  std::uint32_t half_unit_ = 0;  // the first byte of a unit, plus kHasHalf
  std::uint32_t high_surrogate_ = 0;
};

}  // namespace plimsoll::base
