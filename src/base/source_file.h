// The source of a Python program, if the file is still what the program has loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::base {

// A recording names the file, so it may be any. Returns its content only if it is a regular .py
// file with an absolute path, of at most 4 MiB, last modified before this time. Never waits for
// a FIFO.
std::optional<std::string> read_source(const std::string& path, std::int64_t before_ns);

// They refer to `text`.
std::vector<std::string_view> lines_in(std::string_view text);

// Without indentation and control characters; empty if the line is not UTF-8.
std::string visible_line(std::string_view line);

}  // namespace plimsoll::base
