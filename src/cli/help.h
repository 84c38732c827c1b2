// Help and docs/cli.md, both from the table of commands.
#pragma once

#include <string>

#include "cli/command.h"

namespace plimsoll::cli {

std::string overview();                     // plimsoll --help
std::string help_of(const Command& which);  // plimsoll report --help
std::string markdown();                     // docs/cli.md

}  // namespace plimsoll::cli
