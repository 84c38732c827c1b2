// Paths in recordings, which come from Linux, macOS and Windows: "/" and "\" mean the same.
#pragma once

#include <algorithm>
#include <string_view>

namespace plimsoll::base {

inline bool is_separator(char c) { return c == '/' || c == '\\'; }

// "run.plim" of "/home/ada/run.plim".
inline std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of("/\\") + 1);  // npos + 1 is 0
}

// Whether a path ends with `end`, which is written with "/".
inline bool ends_with_path(std::string_view file, std::string_view end) {
  if (file.size() < end.size()) return false;
  return std::ranges::equal(file.substr(file.size() - end.size()), end, [](char has, char wanted) {
    return has == wanted || (is_separator(has) && wanted == '/');
  });
}

}  // namespace plimsoll::base
