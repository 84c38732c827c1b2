// Names in folded stacks. Characters that would break the format are replaced.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace plimsoll::exporters::collapsed {

inline void append_name(std::string& line, std::string_view name) {
  while (!name.empty()) {
    const std::size_t length = base::utf8_sequence_length(name);
    const std::string_view character = name.substr(0, length);
    if (length == 0) {
      line += "\xEF\xBF\xBD";  // U+FFFD
    } else if (character == ";") {
      line += ':';
    } else if (base::is_unprintable(base::code_point(character))) {
      line += ' ';
    } else {
      line += character;
    }
    name.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace plimsoll::exporters::collapsed
