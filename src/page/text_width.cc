#include "page/text_width.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"
#include "page/escape.h"

namespace plimsoll::page {
namespace {

// In hundredths of the font size, for ASCII from the space on. With these factors they are the
// widths of DejaVu Sans, the widest of the common fonts; Helvetica's are an eighth smaller.
constexpr double kRegularFactor = 1.05;
constexpr double kBoldFactor = 1.19;
constexpr std::uint8_t kWidths[] = {
    30, 34, 42, 74, 60, 86, 72, 24, 36, 36, 48, 74, 30, 36, 30, 34, 60, 60, 60, 60, 60, 60, 60, 60,
    60, 60, 32, 32, 74, 74, 74, 54, 96, 68, 68, 70, 74, 63, 58, 75, 74, 30, 36, 66, 56, 84, 74, 77,
    62, 77, 68, 66, 62, 72, 67, 96, 67, 63, 66, 36, 34, 36, 74, 52, 46, 58, 61, 54, 61, 59, 34, 61,
    60, 26, 28, 56, 26, 92, 60, 59, 61, 61, 40, 53, 37, 60, 56, 80, 56, 56, 52, 60, 34, 60, 74};
static_assert(sizeof kWidths == 95);

double character_width(std::uint32_t point, const Font& font) {
  // Characters from U+1100 on, such as ideographs, are nearly all as wide as high.
  if (point >= 0x1100) return point >= 0x2000 && point < 0x2E80 ? 0.75 : 1.0;
  if (font.is_mono) return 0.61;
  const double width = point >= ' ' && point < 0x7F ? kWidths[point - ' '] * 0.01 : 0.66;
  return width * (font.is_bold ? kBoldFactor : kRegularFactor);
}

// An upper bound: no character is narrower than a fifth of the font size.
std::size_t most_characters(const Font& font, double width) {
  return static_cast<std::size_t>(width <= 0 ? 0 : width / (font.size * 0.2) + 1);
}

std::string fitted_by(std::string (*shorten)(std::string_view, std::size_t), std::string_view text,
                      const Font& font, double width) {
  const std::size_t most = most_characters(font, width);
  std::string candidate = shorten(text, most + 1);
  if (text_width(candidate, font) <= width) return candidate;
  std::size_t low = 0;  // known to fit
  std::size_t high = most + 1;
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    (text_width(shorten(text, middle), font) <= width ? low : high) = middle;
  }
  return low < 2 ? std::string() : shorten(text, low);
}

}  // namespace

double text_width(std::string_view text, const Font& font) {
  double width = 0;
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    const std::string_view front = text.substr(0, length == 0 ? 1 : length);
    width += character_width(length == 0 ? 0xFFFD : base::code_point(front), font);
    text.remove_prefix(front.size());
  }
  return width * font.size;
}

std::vector<std::string> wrapped(std::string_view text, const Font& font, double width,
                                 std::size_t most_lines) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() + 1 < most_lines) {
    // The longest part that fits and ends before a space.
    std::size_t end = text.size();
    const std::size_t most_bytes = 4 * most_characters(font, width);
    if (end > most_bytes) end = text.rfind(' ', most_bytes);
    while (end != std::string_view::npos && text_width(text.substr(0, end), font) > width) {
      end = end == 0 ? std::string_view::npos : text.rfind(' ', end - 1);
    }
    if (end == std::string_view::npos || end == 0) break;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!text.empty()) lines.push_back(fitted(text, font, width));
  return lines;
}

std::string fitted(std::string_view text, const Font& font, double width) {
  return fitted_by(shortened, text, font, width);
}

std::string fitted_front(std::string_view text, const Font& font, double width) {
  return fitted_by(shortened_front, text, font, width);
}

}  // namespace plimsoll::page
