// Drawings as SVG: a complete file with the colors of one theme, or a part of an HTML page whose
// stylesheet has the colors. Neither has style attributes, which a strict Content-Security-Policy
// would block. All text from the drawing is escaped.
#pragma once

#include <cstdint>
#include <string>

#include "page/drawing.h"
#include "page/paint.h"

namespace plimsoll::page {

enum class SvgColors : std::uint8_t {
  kOfTheme,  // colors in attributes; the background is painted
  // Classes: "p-activation" is filled, "s-activation" is stroked, "mono" is text in the monospaced
  // font. The background is not painted.
  kOfStylesheet,
};

struct SvgOptions {
  SvgColors colors = SvgColors::kOfTheme;
  Theme theme = Theme::kPrint;
  std::string title = {};        // the accessible name; empty: none
  std::string description = {};  // the text alternative for screen readers
  // Begins the ids of hatches, which must be distinct in one page.
  std::string id_prefix = "h";
};

std::string to_svg(const Drawing& drawing, const SvgOptions& options);

// The theme as CSS custom properties, the content of a rule:
// "--background:#fbfaf7;--ink:#1b1f24;...".
std::string css_of_paints(Theme theme);
// The classes, which use these properties: ".p-ink{fill:var(--ink)}.s-ink{stroke:...}...".
std::string css_of_classes();

std::string css_color(Color color);  // "#0b5fa5"

}  // namespace plimsoll::page
