// Drawings as PDF of one page, for papers. Text is drawn with the strokes of glyphs.h, as in PNG:
// no font needs to be embedded, and the page looks the same everywhere.
#pragma once

#include <string>

#include "page/drawing.h"
#include "page/paint.h"

namespace plimsoll::page {

// A unit of the drawing is 1/96 inch, as in SVG. The background is painted unless it is white.
std::string to_pdf(const Drawing& drawing, Theme theme, const std::string& title);

}  // namespace plimsoll::page
