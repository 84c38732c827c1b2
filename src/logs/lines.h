// Splits any log into lines of UTF-8, without the colors of a terminal. The log arrives in pieces
// of any size, in an encoding that base::TextDecoder reads. Lines end in \n, \r\n or \r; the last
// line may lack an end. Stores the text of one piece and one line, and at most kLongestLine of the
// line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text_decoder.h"

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
  void take_text();
  void take_byte(char byte);
  void end_line();

  Sink sink_;
  base::TextDecoder decoder_;
  std::string text_;  // decoded, not yet split
  std::string line_;
  bool is_long_ = false;
  bool after_return_ = false;
  std::uint64_t long_lines_ = 0;
};

}  // namespace plimsoll::logs
