// Help and docs/cli.md, both generated from the table of commands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/line/command.h"

namespace plimsoll::cli {

std::string usage(const Command& which);        // "plimsoll report FILE... [OPTION...]"
std::string option_help(const Option& option);  // with its choices
// Each exit status with its meaning.
const std::vector<std::pair<std::string, std::string>>& exit_codes();

std::string overview();                     // plimsoll --help
std::string help_of(const Command& which);  // plimsoll report --help
std::string markdown();                     // docs/cli.md

}  // namespace plimsoll::cli
