// Widths of text before it is laid out by a browser: an estimate for the system's sans-serif fonts
// that is rarely too small, so that labels which fit by it fit in every browser.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::page {

struct Font {
  double size = 11;
  bool is_bold = false;
  bool is_mono = false;
};

double text_width(std::string_view text, const Font& font);

// The text, shortened at its end to at most `width`; empty if not even one character and "…" fit.
std::string fitted(std::string_view text, const Font& font, double width);
// In lines that end between words; the last one is shortened if there are too many.
std::vector<std::string> wrapped(std::string_view text, const Font& font, double width,
                                 std::size_t most_lines);
// The same as fitted(), shortened at its front.
std::string fitted_front(std::string_view text, const Font& font, double width);

}  // namespace plimsoll::page
