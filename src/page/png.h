// Drawings as PNG, for viewers that show no SVG, such as TensorBoard. Needs no library.
#pragma once

#include <string>

#include "page/drawing.h"
#include "page/paint.h"

namespace plimsoll::page {

// `scale` is the number of pixels per unit of the drawing: 2 is sharp on most screens. The image
// has at least one pixel and at most 16,384 on each side; a larger drawing gets a smaller scale.
std::string to_png(const Drawing& drawing, Theme theme, double scale = 2);

}  // namespace plimsoll::page
