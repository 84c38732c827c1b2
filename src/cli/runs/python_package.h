// The Python that runs scripts, and the plimsoll package installed for it.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// PLIMSOLL_PYTHON, or the Python next to this command (a virtual environment's), or the one on
// PATH.
std::string python();

// The beginning of a command line that runs a file of the package, such as "_command/launch.py", by
// its path; the file's own arguments follow. The current folder is not searched for modules.
std::vector<std::string> package_file(const std::string& file,
                                      const std::string& interpreter = python());

// The package's folder. Returns an error if plimsoll, or a module that it requires, is not
// installed for that Python.
Result<std::string> package_folder(const std::string& needed);

}  // namespace plimsoll::cli
