// How text is fitted into a terminal: what a string takes up in columns, where it may be broken,
// what is left out of a path that is too long. All text here is UTF-8; text from files goes through
// printable() first.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::text {

// Text of a stranger's file, safe to print: control and direction characters (they could move the
// cursor or lie about what stands where) and broken UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// Columns of a terminal: 2 for East Asian and emoji, 0 for combining marks.
std::size_t display_width(std::string_view text);

std::string pad_left(std::string_view text, std::size_t width);
std::string pad_right(std::string_view text, std::size_t width);

// "projects/llm/src/blocks/attention.py:57 (forward)" -> "projects/…/attention.py:57 (forward)":
// what comes after the last folder survives longest; then the ends of the text.
std::string shorten_place(std::string_view text, std::size_t width);

// The beginning of the text, and "…" where the rest is cut off.
std::string shorten_end(std::string_view text, std::size_t width);

// Breaks at spaces so that no line is wider than `width`; each line begins with `indent` spaces but
// the first, which the caller has begun with as many columns. A word too long for a line is broken.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace plimsoll::text
