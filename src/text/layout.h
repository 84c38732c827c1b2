// Fits text into a terminal: the width of a string in columns, line breaking, and shortening of
// long paths. All text here is UTF-8; text from files must first go through printable().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::text {

// Text from an untrusted file, safe to print: control and direction characters (which could move
// the cursor or disguise text) and invalid UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// Columns of a terminal: 2 for East Asian and emoji, 0 for combining marks.
std::size_t display_width(std::string_view text);

std::string pad_left(std::string_view text, std::size_t width);
std::string pad_right(std::string_view text, std::size_t width);

// "projects/llm/src/blocks/attention.py:57 (forward)" -> "projects/…/attention.py:57 (forward)":
// the part after the last folder is shortened last; then the middle is cut out.
std::string shorten_place(std::string_view text, std::size_t width);

// A prefix of the text, with "…" if the rest is cut off.
std::string shorten_end(std::string_view text, std::size_t width);

// Breaks at spaces so that no line is wider than `width`. Each line begins with `indent` spaces
// except the first, for which the caller has already written that many columns. Overlong words are
// broken.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace plimsoll::text
