#include "page/png.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "page/deflate.h"
#include "page/glyphs.h"
#include "page/raster.h"

namespace plimsoll::page {
namespace {

constexpr double kMostPixels = 16384;  // on each side
constexpr std::size_t kMostDashes = 20'000;
constexpr double kThinnestStroke = 1.1;  // in pixels

class PngPainter {
 public:
  PngPainter(const Drawing& drawing, Theme theme, double scale)
      : theme_(theme),
        scale_(scale),
        raster_(pixels(drawing.width), pixels(drawing.height),
                color_of(Paint::kBackground, theme)) {
    for (const Shape& shape : drawing.shapes) {
      std::visit([this](const auto& each) { paint(each); }, shape);
    }
  }
  const Raster& raster() const { return raster_; }

 private:
  std::size_t pixels(double length) const {
    if (!std::isfinite(length)) return 1;
    return static_cast<std::size_t>(std::clamp(std::ceil(length * scale_), 1.0, kMostPixels));
  }
  // Clamped far outside of the image, so that no later arithmetic overflows.
  double scaled(double value) const {
    return std::isfinite(value) ? std::clamp(value * scale_, -4 * kMostPixels, 4 * kMostPixels) : 0;
  }
  Point scaled(Point point) const { return {scaled(point.x), scaled(point.y)}; }

  Ink ink(Paint paint, double opacity) const { return {color_of(paint, theme_), opacity}; }

  // Calls `fill` with the ink of the surface and of the hatch.
  template <typename Function>
  void with_inks(const Fill& fill, const Function& function) const {
    if (fill.paint != Paint::kNone) function(ink(fill.paint, fill.opacity));
    if (fill.hatch == Paint::kNone) return;
    Ink lines = ink(fill.hatch, kHatchOpacity);
    lines.hatch_period = kHatchPeriod * scale_;
    lines.hatch_width = kHatchWidth * scale_;
    lines.slope = fill.slope;
    function(lines);
  }

  void paint(const Rect& rect) {
    const Box box = {scaled(rect.x), scaled(rect.y), scaled(rect.x + rect.width),
                     scaled(rect.y + rect.height)};
    if (!(box.right > box.left && box.bottom > box.top)) return;
    with_inks(rect.fill, [&](const Ink& ink) { raster_.fill(box, ink); });
    if (rect.outline.paint != Paint::kNone) outline(box, rect.outline);
  }

  void outline(const Box& box, const Stroke& stroke) {
    const Ink line = ink(stroke.paint, stroke.opacity);
    const double half = stroke.width * scale_ / 2;
    const Box outer = {box.left - half, box.top - half, box.right + half, box.bottom + half};
    const double inner_top = std::min(box.top + half, outer.bottom);
    const double inner_bottom = std::max(box.bottom - half, inner_top);
    raster_.fill(Box{outer.left, outer.top, outer.right, inner_top}, line);
    raster_.fill(Box{outer.left, inner_bottom, outer.right, outer.bottom}, line);
    raster_.fill(Box{outer.left, inner_top, box.left + half, inner_bottom}, line);
    raster_.fill(Box{box.right - half, inner_top, outer.right, inner_bottom}, line);
  }

  void paint(const Area& area) {
    Box bounds = {1e9, 1e9, -1e9, -1e9};
    for (std::size_t i = 0; i < area.tops.size(); ++i) {
      if (!(area.bottoms[i] > area.tops[i])) continue;
      bounds.left = std::min(bounds.left, scaled(area.edges[i]));
      bounds.right = std::max(bounds.right, scaled(area.edges[i + 1]));
      bounds.top = std::min(bounds.top, scaled(area.tops[i]));
      bounds.bottom = std::max(bounds.bottom, scaled(area.bottoms[i]));
    }
    if (bounds.right <= bounds.left) return;
    Mask mask(bounds, raster_.width(), raster_.height());
    for (std::size_t i = 0; i < area.tops.size(); ++i) {
      if (!(area.bottoms[i] > area.tops[i])) continue;
      mask.add_box({scaled(area.edges[i]), scaled(area.tops[i]), scaled(area.edges[i + 1]),
                    scaled(area.bottoms[i])});
    }
    with_inks(area.fill, [&](const Ink& ink) { raster_.fill(mask, ink); });
  }

  void paint(const Polyline& polyline) {
    if (polyline.points.size() < 2 || polyline.stroke.paint == Paint::kNone) return;
    const double width = polyline.stroke.width * scale_;
    std::vector<Point> points;
    Box bounds = {1e9, 1e9, -1e9, -1e9};
    for (const Point& point : polyline.points) {
      points.push_back(scaled(point));
      bounds.left = std::min(bounds.left, points.back().x - width);
      bounds.right = std::max(bounds.right, points.back().x + width);
      bounds.top = std::min(bounds.top, points.back().y - width);
      bounds.bottom = std::max(bounds.bottom, points.back().y + width);
    }
    Mask mask(bounds, raster_.width(), raster_.height());
    if (polyline.stroke.dash > 0) {
      add_dashes(mask, points, polyline.stroke);
    } else {
      for (std::size_t i = 1; i < points.size(); ++i) {
        // Joints between segments are round; the ends of the line are cut off.
        add_segment(mask, points[i - 1], points[i], width, i > 1, i + 1 < points.size());
      }
    }
    raster_.fill(mask, ink(polyline.stroke.paint, polyline.stroke.opacity));
  }

  static void add_segment(Mask& mask, Point from, Point to, double width, bool has_joint_before,
                          bool has_joint_after) {
    if (from.x != to.x && from.y != to.y) return mask.add_line(from, to, width);
    const double half = width / 2;
    const double before = has_joint_before ? half : 0;
    const double after = has_joint_after ? half : 0;
    if (from.y == to.y) {
      const bool is_forward = from.x <= to.x;
      mask.add_bar({std::min(from.x, to.x) - (is_forward ? before : after), from.y - half,
                    std::max(from.x, to.x) + (is_forward ? after : before), from.y + half});
    } else {
      const bool is_forward = from.y <= to.y;
      mask.add_bar({from.x - half, std::min(from.y, to.y) - (is_forward ? before : after),
                    from.x + half, std::max(from.y, to.y) + (is_forward ? after : before)});
    }
  }

  void add_dashes(Mask& mask, const std::vector<Point>& points, const Stroke& stroke) const {
    const double width = stroke.width * scale_;
    const std::array<double, 2> lengths = {stroke.dash * scale_,
                                           std::max(stroke.gap, 0.1) * scale_};
    std::size_t part = 0;  // even: a dash
    double left = lengths[0];
    for (std::size_t i = 1; i < points.size(); ++i) {
      Point from = points[i - 1];
      const Point to = points[i];
      for (double rest = std::hypot(to.x - from.x, to.y - from.y); rest > 0;) {
        if (part > kMostDashes) return;
        const double length = std::min(left, rest);
        const Point end = {from.x + (to.x - from.x) * length / rest,
                           from.y + (to.y - from.y) * length / rest};
        if (part % 2 == 0) add_segment(mask, from, end, width, false, false);
        from = end;
        rest -= length;
        left -= length;
        if (left <= 1e-9) left = lengths[++part % 2];
      }
    }
  }

  void paint(const Circle& circle) {
    const Point center = scaled(Point{circle.x, circle.y});
    const double radius = scaled(circle.radius);
    with_inks(circle.fill, [&](const Ink& ink) { raster_.disc(center, radius, ink); });
    if (circle.outline.paint == Paint::kNone) return;
    raster_.ring(center, radius, circle.outline.width * scale_,
                 ink(circle.outline.paint, circle.outline.opacity));
  }

  void paint(const Text& text) {
    double unit = kGlyphUnit * text.size * scale_;
    // At small sizes, the text is sharper if the height of an x is a whole number of pixels.
    if (text.degrees == 0 && unit < 1) unit = std::max(1.0, std::round(unit * 10)) / 10;
    paint_glyphs(text, placed(text, 2 * kMostPixels / unit), unit);
  }

  void paint_glyphs(const Text& text, const PlacedText& placed_text, double unit) {
    const double width =
        std::max((text.is_bold ? kBoldStroke : kRegularStroke) * unit, kThinnestStroke);
    const double angle = text.degrees * std::acos(-1.0) / 180;
    Point origin = scaled(Point{text.x, text.y});
    // Strokes are centered on the baseline. Moved up by half a stroke, they cover whole rows.
    if (text.degrees == 0) origin.y = std::round(origin.y) - width / 2;
    const auto place = [&](Point point, double x) {
      const double across = (placed_text.start + x + point.x) * unit;
      const double up = point.y * unit;
      return Point{origin.x + across * std::cos(angle) + up * std::sin(angle),
                   origin.y + across * std::sin(angle) - up * std::cos(angle)};
    };
    Box bounds = {1e9, 1e9, -1e9, -1e9};
    for (const Point corner : {Point{0, -6}, Point{0, 18}, Point{placed_text.advance, -6},
                               Point{placed_text.advance, 18}}) {
      const Point at = place(corner, 0);
      bounds = {std::min(bounds.left, at.x - width), std::min(bounds.top, at.y - width),
                std::max(bounds.right, at.x + width), std::max(bounds.bottom, at.y + width)};
    }
    for (const bool is_tail : {false, true}) {
      if (is_tail && text.tail.empty()) break;
      Mask mask(bounds, raster_.width(), raster_.height());
      for (const PlacedGlyph& each : placed_text.glyphs) {
        if (each.is_in_tail != is_tail) continue;
        for (const auto& stroke : each.glyph.strokes) {
          for (std::size_t i = 1; i < stroke.size(); ++i) {
            mask.add_line(place(stroke[i - 1], each.x), place(stroke[i], each.x), width);
          }
        }
        for (const Point& dot : each.glyph.dots) {
          mask.add_line(place(dot, each.x), place(dot, each.x), width * 1.3);
        }
      }
      raster_.fill(mask, ink(is_tail ? text.tail_paint : text.paint, 1));
    }
  }

  Theme theme_;
  double scale_;
  Raster raster_;
};

void append_number(std::string& out, std::uint32_t value) {
  for (const unsigned shift : {24u, 16u, 8u, 0u}) out += static_cast<char>(value >> shift & 0xFF);
}

void append_chunk(std::string& out, std::string_view type, std::string_view data) {
  append_number(out, static_cast<std::uint32_t>(data.size()));
  const std::string body = std::string(type) + std::string(data);
  out += body;
  append_number(out, crc32(body));
}

// Rows without filters, because deflate finds the runs and repetitions of a chart itself.
std::string rows_of(const Raster& raster) {
  const std::size_t row_bytes = raster.width() * 3;
  std::string out;
  out.reserve((row_bytes + 1) * raster.height());
  for (std::size_t y = 0; y < raster.height(); ++y) {
    out += '\0';
    const std::uint8_t* const row = raster.bytes().data() + y * row_bytes;
    out.append(reinterpret_cast<const char*>(row), row_bytes);
  }
  return out;
}

std::string encoded(const Raster& raster, double scale) {
  std::string header;
  append_number(header, static_cast<std::uint32_t>(raster.width()));
  append_number(header, static_cast<std::uint32_t>(raster.height()));
  header += {8, 2, 0, 0, 0};  // bits per channel, RGB, deflate, filters, not interlaced
  // A unit of the drawing is 1/96 inch, as in SVG, so both print at the same size.
  const auto per_meter = static_cast<std::uint32_t>(std::lround(96 * scale / 0.0254));
  std::string density;
  append_number(density, per_meter);
  append_number(density, per_meter);
  density += '\1';
  std::string out = "\x89PNG\r\n\x1A\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "pHYs", density);
  append_chunk(out, "IDAT", zlib_compressed(rows_of(raster)));
  append_chunk(out, "IEND", {});
  return out;
}

}  // namespace

std::string to_png(const Drawing& drawing, Theme theme, double scale) {
  const double longest = std::max({drawing.width, drawing.height, 1.0});
  const double fitting =
      std::min(std::isfinite(scale) && scale > 0 ? scale : 1, kMostPixels / longest);
  return encoded(PngPainter(drawing, theme, fitting).raster(), fitting);
}

}  // namespace plimsoll::page
