// The source text of the lines in a report, read from files that have not changed since the
// recorded program ran.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::engine {

// The trace names the file of a line, so it may be any file. It is read only if it is a regular .py
// file with an absolute path, smaller than 4 MiB, last modified before the recording began, and if
// it defines the recorded function above the line. Otherwise the line has no text.
class SourceLines {
 public:
  SourceLines(const model::Trace& trace, const model::UserLines& lines)
      : trace_(trace), lines_(lines) {}

  // Without indentation and control characters; empty if the line has no text.
  std::string text_of(const std::string& label);

 private:
  struct Place {
    std::string file;
    std::string function;
    std::uint32_t line = 0;
    bool is_ambiguous = false;  // two files have this label
  };
  using FileLines = std::vector<std::string>;

  void find_places();
  const FileLines& lines_of(const std::string& file);

  const model::Trace& trace_;
  const model::UserLines& lines_;
  bool has_places_ = false;
  std::map<std::string, Place> places_;     // by label
  std::map<std::string, FileLines> files_;  // empty: must not be read
};

}  // namespace plimsoll::engine
