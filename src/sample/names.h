// Names and number formats shared by all output about a running program.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace plimsoll::sample {

inline constexpr double kBytesPerMb = 1024.0 * 1024.0;

inline double to_mb(std::uint64_t bytes) { return static_cast<double>(bytes) / kBytesPerMb; }

// "8073.4 MB"; small sizes have three decimals, so that growth by a kilobyte shows.
inline std::string mb_text(std::uint64_t bytes) {
  char text[40];
  const double mb = to_mb(bytes);
  std::snprintf(text, sizeof text, mb < 99.9995 ? "%.3f MB" : "%.1f MB", mb);
  return text;
}

// The same with as many decimals as it takes to read the bytes back.
inline std::string exact_mb_text(std::uint64_t bytes) {
  char text[40];
  std::string exact(
      text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.7f", to_mb(bytes))));
  const std::size_t fewest = exact.find('.') + 4;
  while (exact.size() > fewest && exact.ends_with('0')) exact.pop_back();
  return exact + " MB";
}

inline bool is_cpu(std::string_view device) { return device == "cpu"; }

// The five-way view and its names for our categories; the rest is "other".
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kFiveWays = {{
    {"parameter", "parameters"},
    {"gradient", "gradients"},
    {"activation", "activations"},
    {"buffer", "buffers"},
    {"", "other"},
}};

inline constexpr std::string_view kRest = "(rest)";  // the entry for all others in a list

// Text from elsewhere, made safe for one line of output: valid UTF-8 without control characters.
inline std::string one_line(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    const std::string_view character = text.substr(0, length);
    if (length == 0) {
      clean += "\xEF\xBF\xBD";  // U+FFFD
    } else if (base::is_unprintable(base::code_point(character))) {
      clean += ' ';
    } else {
      clean += character;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

inline std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = one_line(name);
  for (char& letter : host) {
    if (letter == '/' || letter == ' ') letter = '_';
  }
  return host;
}

}  // namespace plimsoll::sample
