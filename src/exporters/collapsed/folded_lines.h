// FoldedLines: buffers lines of frames with their bytes and writes them in large pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "exporters/exporter.h"

namespace plimsoll::exporters::collapsed {

class FoldedLines {
 public:
  explicit FoldedLines(Output& output) : output_(output) {}

  // The text so far; append the frames of the current line to it.
  std::string& text() { return text_; }

  Status end_line(std::uint64_t bytes) {
    text_ += ' ' + std::to_string(bytes) + '\n';
    return text_.size() < kFlushBytes ? Status{} : flush();
  }
  Status finish() { return text_.empty() ? Status{} : flush(); }

 private:
  static constexpr std::size_t kFlushBytes = 1 << 16;

  Status flush() {
    PLIMSOLL_TRY(output_.write(text_));
    text_.clear();
    return {};
  }

  Output& output_;
  std::string text_;
};

}  // namespace plimsoll::exporters::collapsed
