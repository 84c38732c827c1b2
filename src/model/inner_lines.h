// Finds the line inside a package that allocated memory for a line of the program. A stack is
// charged to a line of the program (user_line.h); its inner line is the innermost frame below it in
// a package or the standard library, else in generated code, else in torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::model {

// "transformers/models/llama/modeling_llama.py:175 (forward)": a frame with its path inside its
// package, or shortened to two folders.
std::string package_line(const Trace& trace, FrameId frame);

// The name of the inner line where the line of the program itself allocated.
inline constexpr const char* kLineItself = "[the line itself]";

// A line of the program and one of its inner lines.
struct InnerLine {
  LineId line;
  std::string name;            // kLineItself if there is no frame below
  bool is_in_package = false;  // of a package or generated code, not of torch
};

class InnerLines {
 public:
  InnerLines(const Trace& trace, const UserLines& lines);

  // The inner line of a stack, as a row of rows().
  std::uint32_t of(StackId stack) const { return of_stack_[stack.index()]; }
  const std::vector<InnerLine>& rows() const { return rows_; }

 private:
  std::vector<std::uint32_t> of_stack_;
  std::vector<InnerLine> rows_;
};

}  // namespace plimsoll::model
