// Removes escape sequences of terminals, such as colors around numbers ("\x1b[1;36m20.00\x1b[0m").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::base {

inline void remove_escape_sequences(std::string& text) {
  constexpr std::string_view kStart = "\x1b[";
  std::size_t end = text.find(kStart);
  if (end == text.npos) return;
  for (std::size_t at = end; at < text.size();) {
    if (!std::string_view(text).substr(at).starts_with(kStart)) {
      text[end++] = text[at++];
      continue;
    }
    at += kStart.size();
    while (at < text.size() && text[at] >= ' ' && text[at] < '@') ++at;  // parameters
    if (at < text.size()) ++at;                                          // the final letter
  }
  text.resize(end);
}

}  // namespace plimsoll::base
