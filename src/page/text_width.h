// Estimates the width of text before a browser lays it out. The estimate for the system's
// sans-serif fonts is rarely too small, so labels that fit by it fit in every browser.
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
// Splits the text into lines between words; if there are too many, the last one is shortened.
std::vector<std::string> wrapped(std::string_view text, const Font& font, double width,
                                 std::size_t most_lines);
// The same as fitted(), shortened at its front.
std::string fitted_front(std::string_view text, const Font& font, double width);

}  // namespace plimsoll::page
