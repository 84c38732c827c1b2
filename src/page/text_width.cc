#include "page/text_width.h"

#include <cstdint>

#include "base/utf8.h"
#include "page/escape.h"

namespace plimsoll::page {
namespace {

// In hundredths of the font size, for ASCII from the space on: between Helvetica's narrow and
// DejaVu's wide letters.
constexpr std::uint8_t kWidths[] = {
    30, 34, 42, 74, 60, 86, 72, 24, 36, 36, 48, 74, 30, 36, 30, 34, 60, 60, 60, 60, 60, 60, 60, 60,
    60, 60, 32, 32, 74, 74, 74, 54, 96, 68, 68, 70, 74, 63, 58, 75, 74, 30, 36, 66, 56, 84, 74, 77,
    62, 77, 68, 66, 62, 72, 67, 96, 67, 63, 66, 36, 34, 36, 74, 52, 46, 58, 61, 54, 61, 59, 34, 61,
    60, 26, 28, 56, 26, 92, 60, 59, 61, 61, 40, 53, 37, 60, 56, 80, 56, 56, 52, 60, 34, 60, 74};
static_assert(sizeof kWidths == 95);

double character_width(std::uint32_t point, const Font& font) {
  // From the ideographs on, characters are as wide as high.
  if (point >= 0x1100) return point >= 0x2000 && point < 0x2E80 ? 0.75 : 1.0;
  if (font.is_mono) return 0.61;
  const double width = point >= ' ' && point < 0x7F ? kWidths[point - ' '] * 0.01 : 0.66;
  return font.is_bold ? width * 1.08 : width;
}

std::string fitted_by(std::string (*shorten)(std::string_view, std::size_t), std::string_view text,
                      const Font& font, double width) {
  // No character is narrower than a fifth of its size: more would not fit, and cost time.
  const auto most = static_cast<std::size_t>(width <= 0 ? 0 : width / (font.size * 0.2) + 1);
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

std::string fitted(std::string_view text, const Font& font, double width) {
  return fitted_by(shortened, text, font, width);
}

std::string fitted_front(std::string_view text, const Font& font, double width) {
  return fitted_by(shortened_front, text, font, width);
}

}  // namespace plimsoll::page
