// What stands at the other end of stdout and stderr, and what the user asked us to make of it.
#pragma once

#include <cstddef>
#include <string_view>

#include "plimsoll/result.h"
#include "text/style.h"

namespace plimsoll::cli {

// Columns for what goes to stdout: those of the terminal, at most `widest`; 100 when piped.
std::size_t output_width(std::size_t widest = 100);

// `when`: "auto", "always" or "never". auto: on a terminal that is not dumb, unless NO_COLOR is
// set.
text::Color output_color(std::string_view when);

bool can_draw_pages();         // stdout is a terminal that is not dumb
bool can_show_progress();      // stderr is a terminal that can redraw a line
std::size_t progress_width();  // its columns

// Writes all of it to stdout. A reader that has gone (`| head`) is no error.
Status print(std::string_view text);

// "plimsoll: <sentence>" to stderr.
void complain(std::string_view sentence);
// The same of an error; its exit code.
int complain(const Error& error);

}  // namespace plimsoll::cli
