// The Python that scripts run in, and the package plimsoll that is installed for it.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// PLIMSOLL_PYTHON, or the Python beside this command (a virtual environment's), or that of PATH.
std::string python();

// The beginning of a command line that runs a file of the package by its path, such as
// "_command/launch.py"; the file's own words follow. The current folder is not searched for
// modules.
std::vector<std::string> package_file(const std::string& file);

// The package's folder. An error where plimsoll, or the module that is needed with it, is not
// installed for that Python.
Result<std::string> package_folder(const std::string& needed);

}  // namespace plimsoll::cli
