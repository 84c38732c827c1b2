// Finds the Python traceback that ends at an out-of-memory message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll::readers::oom_message {

// How far before a message its traceback is searched for.
inline constexpr std::size_t kLongestTracebackBytes = 64 << 10;

struct CodeLine {
  std::string_view file;
  std::uint32_t line = 0;
  std::string_view function;
};

// Returns the lines of the last traceback in `text`, which ends at the message; innermost first.
std::vector<CodeLine> traceback_of(std::string_view text);

}  // namespace plimsoll::readers::oom_message
