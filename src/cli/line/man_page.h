// The manual page plimsoll(1), generated from the table of commands.
#pragma once

#include <string>

namespace plimsoll::cli {

// In roff, with the macros of man(7).
std::string man_page();

}  // namespace plimsoll::cli
