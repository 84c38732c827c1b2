// A font for PNG, drawn for Plimsoll. Characters are strokes of one width, which suit every size
// and scale: ASCII, and the punctuation and signs of charts. Others are an empty box.
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

Glyph glyph_of(std::uint32_t code_point, bool is_mono);

}  // namespace plimsoll::page
