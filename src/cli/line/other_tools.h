// Commands and options of other tools that users type here: what to use instead.
#pragma once

#include <string>

#include "cli/line/command.h"

namespace plimsoll::cli {

// "there is no command compare; plimsoll diff … (plimsoll --help)". Suggests the command for names
// of other tools, else the one that `word` misspells.
std::string no_such_command(const std::string& word);

// "; did you mean --by?" for an option of another tool, such as --group-by; else "".
std::string option_instead_of(const Command& command, const std::string& name);

// "; timeline …" for a name that other tools give a value of the option; else "".
std::string value_instead_of(const std::string& option, const std::string& value);

}  // namespace plimsoll::cli
