// The source of the recorded program, as far as its stacks name it: what lines have in common after
// an edit above them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/ids.h"

namespace plimsoll::model {

// A line of the source when the recording ended.
struct SourceLine {
  StringId file;
  std::uint32_t line = 0;
  std::uint64_t hash = 0;
  std::string text;  // white space folded; empty: only its hash is known
};

struct FunctionStart {
  StringId file;
  StringId function;
  std::uint32_t line = 0;  // its first one
};

class ProgramSource {
 public:
  // In any order. Of several lines with one number, the last one counts.
  void add(SourceLine line);
  void add(const FunctionStart& start) { starts_.push_back(start); }
  // Call it after the last one.
  void sort();

  // Null if the recording does not have it.
  const SourceLine* line(StringId file, std::uint32_t line) const;
  // The first line of the function that contains this one; 0 if unknown.
  std::uint32_t first_line(StringId file, StringId function, std::uint32_t line) const;

  const std::vector<SourceLine>& lines() const { return lines_; }
  const std::vector<FunctionStart>& starts() const { return starts_; }
  void drop_lines() { lines_.clear(); }
  std::size_t memory_bytes() const;

 private:
  std::vector<SourceLine> lines_;
  std::vector<FunctionStart> starts_;
  std::size_t text_bytes_ = 0;
};

}  // namespace plimsoll::model
