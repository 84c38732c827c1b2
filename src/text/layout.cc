#include "text/layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace plimsoll::text {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";
constexpr std::string_view kEllipsis = "\u2026";

using base::code_point;

using Range = std::pair<std::uint32_t, std::uint32_t>;

template <std::size_t N>
bool is_in(std::uint32_t point, const std::array<Range, N>& ranges) {
  return std::ranges::any_of(
      ranges, [&](const Range& range) { return point >= range.first && point <= range.second; });
}

std::size_t columns(std::uint32_t point) {
  constexpr std::array<Range, 3> kCombining{{{0x0300, 0x036F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  constexpr std::array<Range, 8> kWide{{{0x1100, 0x115F},
                                        {0x2E80, 0xA4CF},
                                        {0xAC00, 0xD7A3},
                                        {0xF900, 0xFAFF},
                                        {0xFE30, 0xFE6F},
                                        {0xFF00, 0xFF60},
                                        {0x1F300, 0x1FAFF},
                                        {0x20000, 0x3FFFD}}};
  if (is_in(point, kCombining)) return 0;
  return is_in(point, kWide) ? 2 : 1;
}

// Calls each(sequence) for every character; an invalid byte counts as one.
template <typename Each>
void for_each_character(std::string_view text, Each each) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length =
        std::max<std::size_t>(1, base::utf8_sequence_length(text.substr(at)));
    each(text.substr(at, length));
    at += length;
  }
}

bool is_broken(std::string_view character) { return base::utf8_sequence_length(character) == 0; }

// The longest prefix of `text` that fits.
std::string_view front_that_fits(std::string_view text, std::size_t width) {
  std::size_t size = 0;
  std::size_t used = 0;
  while (size < text.size()) {
    const std::size_t length =
        std::max<std::size_t>(1, base::utf8_sequence_length(text.substr(size)));
    used += display_width(text.substr(size, length));
    if (used > width) break;
    size += length;
  }
  return text.substr(0, size);
}

std::string_view back_that_fits(std::string_view text, std::size_t width) {
  std::size_t to_drop = display_width(text) - std::min(width, display_width(text));
  std::size_t at = 0;
  while (at < text.size() && to_drop > 0) {
    const std::size_t length =
        std::max<std::size_t>(1, base::utf8_sequence_length(text.substr(at)));
    to_drop -= std::min(to_drop, display_width(text.substr(at, length)));
    at += length;
  }
  return text.substr(at);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::string_view character) {
    const bool is_bad = is_broken(character) || base::is_unprintable(code_point(character));
    out += is_bad ? kReplacement : character;
  });
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for_each_character(text, [&](std::string_view character) {
    width += is_broken(character) ? 1 : columns(code_point(character));
  });
  return width;
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string shorten_place(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  const auto joined = [](std::string_view front, std::string_view back) {
    return std::string(front) + std::string(kEllipsis) + std::string(back);
  };
  // The beginning of the file's name; a function's name may contain slashes, too.
  const std::size_t slash = text.substr(0, text.find(" (")).find_last_of("/\\");
  if (slash == std::string_view::npos) {
    const std::size_t front = (width - 1) / 2;
    return joined(front_that_fits(text, front), back_that_fits(text, width - 1 - front));
  }
  const std::string_view tail = text.substr(slash);
  if (display_width(tail) < width) {
    return joined(front_that_fits(text, width - 1 - display_width(tail)), tail);
  }
  const std::string_view name = tail.substr(1);
  if (display_width(name) <= width) return std::string(name);
  return joined(front_that_fits(name, width - 1), "");
}

std::string shorten_end(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  return std::string(front_that_fits(text, width - 1)) + std::string(kEllipsis);
}

std::string wrap(std::string_view text, std::size_t indent, std::size_t width) {
  const std::size_t room = std::max<std::size_t>(width > indent ? width - indent : 0, 10);
  const std::string next_line = "\n" + std::string(indent, ' ');
  std::string out;
  std::size_t used = 0;
  const auto put = [&](std::string_view word) {
    while (display_width(word) > room) {  // too wide for any line
      if (used > 0) out += next_line;
      const std::string_view piece = front_that_fits(word, room);
      out += piece;
      used = room;
      word.remove_prefix(piece.size());
    }
    const std::size_t length = display_width(word);
    if (used > 0 && used + 1 + length > room) {
      out += next_line;
      used = 0;
    }
    if (used > 0) out += ' ';
    out += word;
    used += length + (used > 0 ? 1 : 0);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) put(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace plimsoll::text
