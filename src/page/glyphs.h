// A font for PNG and PDF, drawn for Plimsoll. Characters are strokes of one width, which suit every
// size and scale: ASCII, and the punctuation and signs of charts. Others are an empty box.
#pragma once

#include <cstdint>
#include <vector>

#include "page/drawing.h"

namespace plimsoll::page {

// Coordinates are in units of which capital letters are 14 high and an x is 10 high; y points up
// from the baseline.
struct Glyph {
  double advance = 0;
  std::vector<std::vector<Point>> strokes;
  std::vector<Point> dots;
};

// The size of a unit at font size 1.
inline constexpr double kGlyphUnit = 0.72 / 14;
inline constexpr double kRegularStroke = 1.7;  // in units
inline constexpr double kBoldStroke = 2.5;

Glyph glyph_of(std::uint32_t code_point, bool is_mono);

// A glyph and its position in a text.
struct PlacedGlyph {
  Glyph glyph;
  double x = 0;  // in units
  bool is_in_tail = false;
};
struct PlacedText {
  std::vector<PlacedGlyph> glyphs;
  double advance = 0;
  double start = 0;  // the position of the first glyph relative to the anchor
};
// The glyphs of the text and of its tail, as far as they fit in `most` units.
PlacedText placed(const Text& text, double most);

}  // namespace plimsoll::page
