// Text for the narrow lines of `plimsoll top`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::top {

// The first columns of a line that may be coloured; colour ends with it.
std::string cut_columns(std::string_view line, std::size_t width);

// Lines no wider than that, each broken between words and never between a number and its unit; all
// but the first are indented.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t indent,
                                       std::size_t width);

// "/venv/bin/python3 -u /home/ann/train.py --epochs 3" -> "train.py --epochs 3", and of python -m
// plimsoll run the script that it runs. What does not fit is cut off at the end.
std::string short_command(const std::string& command, std::size_t width);

}  // namespace plimsoll::top
