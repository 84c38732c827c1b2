#include "logs/lines.h"

#include <utility>

#include "base/terminal_escapes.h"

namespace plimsoll::logs {

void LogLines::feed(std::string_view bytes) {
  decoder_.feed(bytes, text_);
  take_text();
}

void LogLines::finish() {
  decoder_.finish(text_);
  take_text();
  if (!line_.empty()) end_line();
}

void LogLines::take_text() {
  for (const char byte : text_) take_byte(byte);
  text_.clear();
}

void LogLines::take_byte(char byte) {
  const bool was_return = std::exchange(after_return_, byte == '\r');
  if (byte == '\n' && was_return) return;
  if (byte == '\n' || byte == '\r') {
    end_line();
    return;
  }
  if (line_.size() == kLongestLine) {
    is_long_ = true;
    return;
  }
  line_ += byte;
}

void LogLines::end_line() {
  if (std::exchange(is_long_, false)) ++long_lines_;
  base::remove_escape_sequences(line_);
  sink_(line_);
  line_.clear();
}

}  // namespace plimsoll::logs
