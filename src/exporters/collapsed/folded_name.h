// Names in folded stacks: what would break the form is replaced.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::exporters::collapsed {

inline void append_name(std::string& line, std::string_view name) {
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ';') {
      line += ':';
    } else {
      line += byte < 0x20 || byte == 0x7f ? ' ' : c;
    }
  }
}

}  // namespace plimsoll::exporters::collapsed
