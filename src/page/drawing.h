// Drawing: a chart as a list of simple shapes, in the order in which they are painted. Writers turn
// it into SVG (svg.h) or PNG (png.h). Coordinates are pixels from the top left corner; a line of
// width 1 at a coordinate ending in .5 covers one row of pixels.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "page/paint.h"

namespace plimsoll::page {

enum class HatchSlope : std::uint8_t { kRising, kFalling };  // to the right

struct Fill {
  Paint paint = Paint::kNone;
  double opacity = 1;
  Paint hatch = Paint::kNone;  // diagonal lines over it
  HatchSlope slope = HatchSlope::kRising;
};
// The lines of a hatch are 6 pixels apart on both axes.
inline constexpr double kHatchPeriod = 6, kHatchWidth = 1.4, kHatchOpacity = 0.45;

struct Stroke {
  Paint paint = Paint::kNone;
  double width = 1;
  double dash = 0;  // lengths of a dash and of the gap after it; 0: solid
  double gap = 0;
  double opacity = 1;
};

// Arbitrary texts; writers escape them.
struct Hint {
  std::string tooltip = {};
  std::string key = {};  // for scripts: what the shape stands for (data-key)
};

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
  Fill fill;
  Stroke outline = {};  // centered on the edge
  Hint hint = {};
};

// A band of steps: between edges[i] and edges[i + 1] it reaches from bottoms[i] up to tops[i].
// Steps without height are not painted.
struct Area {
  std::vector<double> edges;  // one more than tops and bottoms; ascending
  std::vector<double> tops;
  std::vector<double> bottoms;
  Fill fill;
  Hint hint = {};
};

struct Point {
  double x = 0, y = 0;
};

struct Polyline {
  std::vector<Point> points;
  Stroke stroke;
};

struct Circle {
  double x = 0, y = 0, radius = 0;
  Fill fill = {};
  Stroke outline = {};
  Hint hint = {};
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

struct Text {
  double x = 0, y = 0;  // the anchor, on the baseline
  std::string text;
  double size = 11;  // of the font
  Paint paint = Paint::kInk;
  Anchor anchor = Anchor::kStart;
  bool is_bold = false;
  bool is_mono = false;
  double degrees = 0;  // clockwise, around (x, y)
  // Continues the text in another paint, at the position where the text ends.
  std::string tail = {};
  Paint tail_paint = Paint::kMuted;
};

using Shape = std::variant<Rect, Area, Polyline, Circle, Text>;

struct Drawing {
  double width = 0;
  double height = 0;
  std::vector<Shape> shapes = {};

  void add(Shape shape) { shapes.push_back(std::move(shape)); }
  void line(Point from, Point to, Stroke stroke) { add(Polyline{{from, to}, stroke}); }
};

}  // namespace plimsoll::page
