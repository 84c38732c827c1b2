// Runs other programs until they end, on our terminal or with their output captured.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// Returns the exit status as shells define it (128 + the signal that ended the program), or an
// error if the program cannot be started. The child handles Ctrl-C itself.
Result<int> run_program(const std::vector<std::string>& words);

// Like run_program, but in another folder and with the program's stdout redirected to our stderr,
// because our stdout carries the result. Forwards the signals that we receive, and returns
// kInterrupted after one that asks a program to end.
Result<int> run_with_output_on_stderr(const std::vector<std::string>& words,
                                      const std::string& folder);

// Like run_program, for a program that takes our place: forwards the signals that we receive to it.
// Signals from the terminal, which it also receives, do not end us before it ends.
Result<int> run_and_forward_signals(const std::vector<std::string>& words);

struct ProgramOutput {
  int status = 0;
  std::string out;     // at most 16 MiB
  std::string errors;  // at most 16 MiB
};
// Runs a program in the C locale, so that numbers have decimal points.
Result<ProgramOutput> read_program(const std::vector<std::string>& words);

struct ProgramFiles {
  std::string in;
  std::string out;
  std::string errors;
};
// Like run_with_output_on_stderr, but in our folder and with the standard streams in files. So the
// output may have any length, and a process that outlives the program delays nothing.
Result<int> run_with_files(const std::vector<std::string>& words, const ProgramFiles& files);

// Joins the words, quoted for a shell.
std::string shell_line(const std::vector<std::string>& words);

// Whether PATH contains a program of this name.
bool is_on_path(const std::string& name);

}  // namespace plimsoll::cli
