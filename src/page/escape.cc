#include "page/escape.h"

#include <cstdint>

#include "base/utf8.h"

namespace plimsoll::page {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

std::size_t front_length(std::string_view text) {
  const std::size_t length = base::utf8_sequence_length(text);
  return length == 0 ? 1 : length;
}

// U+FFFE, U+FFFF and their like in every plane, and U+FDD0 to U+FDEF.
bool is_noncharacter(std::uint32_t point) {
  return (point & 0xFFFE) == 0xFFFE || (point >= 0xFDD0 && point <= 0xFDEF);
}

std::string_view entity_of(char character) {
  switch (character) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    const std::string_view front = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(front.size());
    if (length == 0) {
      out += kReplacement;
      continue;
    }
    const std::uint32_t point = base::code_point(front);
    const bool is_space = point == '\t' || point == '\n';
    if (const std::string_view entity = entity_of(front[0]); !entity.empty()) {
      out += entity;
    } else if (!is_space && (base::is_unprintable(point) || is_noncharacter(point))) {
      out += kReplacement;
    } else {
      out += front;
    }
  }
  return out;
}

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(front_length(text));
  return count;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  std::size_t kept_end = 0;  // end of the first `most` - 1 characters
  for (std::size_t count = 0; end < text.size(); ++count) {
    if (count + 1 == most) kept_end = end;
    if (count == most) return std::string(text.substr(0, kept_end)) + std::string(kEllipsis);
    end += front_length(text.substr(end));
  }
  return std::string(text);
}

std::string shortened_front(std::string_view text, std::size_t most) {
  const std::size_t count = character_count(text);
  if (count <= most) return std::string(text);
  for (std::size_t left = count; left + 1 > most && !text.empty(); --left) {
    text.remove_prefix(front_length(text));
  }
  return std::string(kEllipsis) + std::string(text);
}

}  // namespace plimsoll::page
