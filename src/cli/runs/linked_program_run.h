// plimsoll run -- PROGRAM: runs a program that links Plimsoll, or a Python that imports it, and
// reports where the program wrote its recording.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::cli {

// `path`: the trace file. Returns the program's exit status if it failed; one of our exit codes if
// it recorded nothing or cannot be started.
int run_linked_program(const std::string& path, const std::vector<std::string>& program);

}  // namespace plimsoll::cli
