// Runs other programs to their end: on our terminal, or with their output captured.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// Returns the exit status as a shell counts it (128 + the signal that ended it). The child handles
// Ctrl-C itself. Returns an error if it cannot be started.
Result<int> run_program(const std::vector<std::string>& words);

// The same for a program that replaces ours: signals sent to us are forwarded to it, and signals
// from the terminal, which it also receives, do not end us before it ends.
Result<int> run_in_our_place(const std::vector<std::string>& words);

struct ProgramOutput {
  int status = 0;
  std::string out;     // at most 16 MiB
  std::string errors;  // the same
};
// Runs in the C locale, so that numbers have decimal points.
Result<ProgramOutput> read_program(const std::vector<std::string>& words);

// The words, quoted for a shell.
std::string shell_line(const std::vector<std::string>& words);

// Whether PATH contains such a program.
bool is_on_path(const std::string& name);

}  // namespace plimsoll::cli
