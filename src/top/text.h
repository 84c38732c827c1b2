// Text for the narrow lines of `plimsoll top`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::top {

// Returns the first `width` columns of a line that may contain color codes, and resets the color.
std::string cut_columns(std::string_view line, std::size_t width);

// Wraps text between words, but never between a number and its unit. All lines except the first are
// indented.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t indent,
                                       std::size_t width);

// "/venv/bin/python3 -u /home/ann/train.py --epochs 3" -> "train.py --epochs 3". For
// `python -m plimsoll run`, the recorded script. "python -u -m pytest tests" -> "python -m pytest
// tests". The end is cut off if the command does not fit.
std::string short_command(const std::string& command, std::size_t width);

}  // namespace plimsoll::top
