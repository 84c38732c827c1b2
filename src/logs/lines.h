// The lines of a log that may be anything: bytes in pieces of any size, UTF-8 or UTF-16 with a byte
// order mark (as PowerShell's `>` writes it), lines that end in \n, \r\n or \r, lines without an
// end. No more than one line is kept, and no more of that than kMostOfALine.
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

  static constexpr std::size_t kMostOfALine = std::size_t{64} << 10;

  explicit LogLines(Sink sink) : sink_(std::move(sink)) {}

  void feed(std::string_view bytes);
  void finish();  // what is left is a line, too

  std::uint64_t long_lines() const { return long_lines_; }  // that were cut

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
