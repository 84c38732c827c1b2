// Other programs, run to their end: one that shares our terminal, or one whose output we read.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// Its exit status, as a shell counts it (128 + the signal that ended it). Ctrl-C is its own matter.
// An error where it cannot be started.
Result<int> run_program(const std::vector<std::string>& words);

// The same where it stands in our place: signals that others send us go on to it, and those of the
// terminal, which it has got itself, do not end us before it.
Result<int> run_in_our_place(const std::vector<std::string>& words);

struct ProgramOutput {
  int status = 0;
  std::string out;     // at most 16 MiB of it
  std::string errors;  // the same
};
// In the locale C, so that numbers have points.
Result<ProgramOutput> read_program(const std::vector<std::string>& words);

// As one would type it into a shell.
std::string shell_line(const std::vector<std::string>& words);

// Whether PATH has such a program.
bool is_on_path(const std::string& name);

}  // namespace plimsoll::cli
