// Properties of stdout and stderr, the user's choice of color, and messages.
#pragma once

#include <cstddef>
#include <string_view>

#include "plimsoll/result.h"
#include "text/style.h"

namespace plimsoll::cli {

// The columns to use on stdout: those of the terminal, at most `widest`; 100 in a pipe.
std::size_t output_width(std::size_t widest = 100);

// Whether an environment variable is set and not empty.
bool is_set(const char* variable);

// `when` is "auto", "always" or "never". "auto" means color on a terminal that is not dumb, unless
// NO_COLOR is set.
text::Color output_color(std::string_view when);

bool can_draw_pages();         // stdout is a terminal that is not dumb
bool can_show_progress();      // stderr is a terminal that can redraw a line
std::size_t progress_width();  // its columns

// Writes all of it to stdout. A closed pipe (as with `| head`) is not an error.
Status print(std::string_view text);

// Prints "plimsoll: <sentence>" to stderr.
void complain(std::string_view sentence);
// The same for an error; returns its exit code.
int complain(const Error& error);

}  // namespace plimsoll::cli
