// Prepares a log for searching: what terminals, loggers and containers add to a program's output is
// removed, so that messages and tracebacks read as the program printed them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::readers::oom_message {

// Removes escape sequences of terminals, unpacks lines of JSON (loggers, and docker's json-file
// driver), and removes the column of rich's logger that names the source file. Linear in time.
std::string prepared_log(std::string text);

// Whether the first line is a JSON object that a logger or a container has written.
bool begins_as_json_log(std::string_view text);

// The line around `at`, shortened, for quoting.
std::string quotation(std::string_view text, std::size_t at);

}  // namespace plimsoll::readers::oom_message
