// Shell completion scripts, generated from the table of commands.
#pragma once

#include <string>

namespace plimsoll::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace plimsoll::cli
