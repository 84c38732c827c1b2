// Splits any log into lines. The log arrives in pieces of any size, in UTF-8 or in UTF-16 with a
// byte order mark (as PowerShell's `>` writes it). Lines end in \n, \r\n or \r; the last line may
// lack an end. Stores at most one line, and at most kLongestLine of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace plimsoll::logs {

class LogLines {
 public:
  using Sink = std::function<void(std::string_view line)>;

  static constexpr std::size_t kLongestLine = std::size_t{64} << 10;

  explicit LogLines(Sink sink) : sink_(std::move(sink)) {}

  void feed(std::string_view bytes);
  void finish();  // reports the rest as a line

  std::uint64_t long_lines() const { return long_lines_; }  // truncated lines

 private:
  enum class Encoding : std::uint8_t { kUnknown, kUtf8, kUtf16Little, kUtf16Big };

  void decide();
  void take(std::string_view bytes);
  void take_unit(std::uint32_t unit);  // of UTF-16
  void take_code_point(std::uint32_t point);
  void take_byte(char byte);
  void end_line();

  Sink sink_;
  Encoding encoding_ = Encoding::kUnknown;
  std::string head_;  // while the encoding is unknown
  std::string line_;
  bool is_long_ = false;
  bool after_return_ = false;
  std::uint64_t long_lines_ = 0;
  std::uint32_t half_unit_ = 0;  // the first byte of a unit, plus kHasHalf
  std::uint32_t high_surrogate_ = 0;
};

}  // namespace plimsoll::logs
