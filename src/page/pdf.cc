#include "page/pdf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "base/utf8.h"
#include "page/deflate.h"
#include "page/glyphs.h"

namespace plimsoll::page {
namespace {

constexpr double kPointsPerUnit = 0.75;
constexpr double kPdfFarthest = 1e6;
constexpr double kCircle = 0.5523;  // of the radius: the control points of a quarter of a circle

std::string operand(double value) {
  std::array<char, 32> text{};
  const double bounded = std::isfinite(value) ? std::clamp(value, -kPdfFarthest, kPdfFarthest) : 0;
  const auto end = std::to_chars(text.begin(), text.end(), bounded, std::chars_format::fixed, 2);
  return std::string(text.data(), end.ptr) + " ";
}

struct Bounds {
  double left = kPdfFarthest, top = kPdfFarthest, right = -kPdfFarthest, bottom = -kPdfFarthest;

  void add(double x, double y) {
    left = std::min(left, x);
    top = std::min(top, y);
    right = std::max(right, x);
    bottom = std::max(bottom, y);
  }
};

// The content of the page, in the operators of PDF 1.4 (ISO 32000, annex A).
class PdfPainter {
 public:
  PdfPainter(const Drawing& drawing, Theme theme) : theme_(theme) {
    // Coordinates of a drawing go down, those of a page go up.
    out_ += operand(kPointsPerUnit) + "0 0 " + operand(-kPointsPerUnit) + "0 " +
            operand(drawing.height * kPointsPerUnit) + "cm 1 j\n";
    if (color_of(Paint::kBackground, theme) != Color{255, 255, 255}) {
      paint(Rect{0, 0, drawing.width, drawing.height, {Paint::kBackground}});
    }
    for (const Shape& shape : drawing.shapes) {
      std::visit([this](const auto& each) { paint(each); }, shape);
    }
  }
  const std::string& content() const { return out_; }
  // Graphics states by opacity: "/G1" for the first.
  const std::map<double, std::size_t>& opacities() const { return opacities_; }

 private:
  void add(std::initializer_list<double> values, std::string_view op) {
    for (const double value : values) out_ += operand(value);
    out_.append(op).append("\n");
  }
  void color(Paint paint, std::string_view op) {
    const Color color = color_of(paint, theme_);
    add({color.red / 255.0, color.green / 255.0, color.blue / 255.0}, op);
  }
  void opacity(double value) {
    if (value >= 1) return;
    const std::size_t state = opacities_.emplace(value, opacities_.size() + 1).first->second;
    out_ += "/G" + std::to_string(state) + " gs\n";
  }
  void stroke(const Stroke& stroke) {
    color(stroke.paint, "RG");
    opacity(stroke.opacity);
    add({stroke.width}, "w");
    if (stroke.dash > 0) out_ += "[" + operand(stroke.dash) + operand(stroke.gap) + "] 0 d\n";
  }

  // The shape with its surface, hatch and outline. `path` adds the path.
  template <typename Path>
  void filled(const Bounds& bounds, const Fill& fill, const Stroke& outline, const Path& path) {
    if (fill.paint != Paint::kNone) {
      out_ += "q\n";
      color(fill.paint, "rg");
      opacity(fill.opacity);
      path();
      out_ += "f Q\n";
    }
    if (fill.hatch != Paint::kNone) {
      out_ += "q\n";
      path();
      out_ += "W n\n";
      stroke({.paint = fill.hatch, .width = kHatchWidth, .opacity = kHatchOpacity});
      const double height = bounds.bottom - bounds.top;
      const bool is_rising = fill.slope == HatchSlope::kRising;
      // The lines of all shapes are on one grid, as in SVG.
      const double origin = is_rising ? bounds.left + bounds.top : bounds.left - bounds.bottom;
      const double first = std::floor(origin / kHatchPeriod) * kHatchPeriod - origin + bounds.left;
      for (double x = first; x < bounds.right + height; x += kHatchPeriod) {
        add({x, is_rising ? bounds.top : bounds.bottom}, "m");
        add({x - height, is_rising ? bounds.bottom : bounds.top}, "l");
      }
      out_ += "S Q\n";
    }
    if (outline.paint == Paint::kNone) return;
    out_ += "q\n";
    stroke(outline);
    path();
    out_ += "S Q\n";
  }

  void paint(const Rect& rect) {
    if (!(rect.width > 0 && rect.height > 0)) return;
    filled({rect.x, rect.y, rect.x + rect.width, rect.y + rect.height}, rect.fill, rect.outline,
           [&] { add({rect.x, rect.y, rect.width, rect.height}, "re"); });
  }

  void paint(const Area& area) {
    Bounds bounds;
    const auto is_empty = [&](std::size_t i) { return !(area.bottoms[i] > area.tops[i]); };
    const std::size_t count = area.tops.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (is_empty(i)) continue;
      bounds.add(area.edges[i], area.tops[i]);
      bounds.add(area.edges[i + 1], area.bottoms[i]);
    }
    if (bounds.right <= bounds.left) return;
    filled(bounds, area.fill, {}, [&] {
      for (std::size_t begin = 0; begin < count; ++begin) {
        if (is_empty(begin)) continue;
        std::size_t end = begin;
        add({area.edges[begin], area.bottoms[begin]}, "m");
        for (; end < count && !is_empty(end); ++end) {
          add({area.edges[end], area.tops[end]}, "l");
          add({area.edges[end + 1], area.tops[end]}, "l");
        }
        for (std::size_t i = end; i-- > begin;) {
          add({area.edges[i + 1], area.bottoms[i]}, "l");
          add({area.edges[i], area.bottoms[i]}, "l");
        }
        out_ += "h\n";
        begin = end - 1;
      }
    });
  }

  void line(const std::vector<Point>& points) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      add({points[i].x, points[i].y}, i == 0 ? "m" : "l");
    }
  }

  void paint(const Polyline& polyline) {
    if (polyline.points.size() < 2 || polyline.stroke.paint == Paint::kNone) return;
    out_ += "q\n";
    stroke(polyline.stroke);
    line(polyline.points);
    out_ += "S Q\n";
  }

  void paint(const Circle& circle) {
    const double x = circle.x, y = circle.y, r = circle.radius, c = kCircle * r;
    filled({x - r, y - r, x + r, y + r}, circle.fill, circle.outline, [&] {
      add({x + r, y}, "m");
      add({x + r, y + c, x + c, y + r, x, y + r}, "c");
      add({x - c, y + r, x - r, y + c, x - r, y}, "c");
      add({x - r, y - c, x - c, y - r, x, y - r}, "c");
      add({x + c, y - r, x + r, y - c, x + r, y}, "c h");
    });
  }

  void paint(const Text& text) {
    const PlacedText glyphs = placed(text, kPdfFarthest);
    const double unit = kGlyphUnit * text.size;
    const double angle = text.degrees * std::acos(-1.0) / 180;
    const double across = std::cos(angle) * unit, down = std::sin(angle) * unit;
    out_ += "q 1 J\n";
    add({across, down, down, -across, text.x, text.y}, "cm");
    add({text.is_bold ? kBoldStroke : kRegularStroke}, "w");
    for (const bool is_tail : {false, true}) {
      if (is_tail && text.tail.empty()) break;
      color(is_tail ? text.tail_paint : text.paint, "RG");
      for (const PlacedGlyph& each : glyphs.glyphs) {
        if (each.is_in_tail != is_tail) continue;
        const double x = glyphs.start + each.x;
        for (std::vector<Point> points : each.glyph.strokes) {
          for (Point& point : points) point.x += x;
          line(points);
        }
        for (const Point& dot : each.glyph.dots) {  // a line without length is a round point
          line({{x + dot.x, dot.y}, {x + dot.x, dot.y}});
        }
      }
      out_ += "S\n";
    }
    out_ += "Q\n";
  }

  Theme theme_;
  std::string out_;
  std::map<double, std::size_t> opacities_;
};

// UTF-16 with a mark at the front, in hexadecimal: all characters, and nothing to escape.
std::string title_text(std::string_view title) {
  std::string out = "<FEFF";
  const auto unit = [&](std::uint32_t value) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04X", value & 0xFFFFU);
    out += text.data();
  };
  while (!title.empty()) {
    const std::size_t length = base::utf8_sequence_length(title);
    const std::uint32_t point = length == 0 ? 0xFFFD : base::code_point(title.substr(0, length));
    title.remove_prefix(std::max<std::size_t>(length, 1));
    if (point >= 0x10000) unit(0xD800 + ((point - 0x10000) >> 10U));
    unit(point < 0x10000 ? point : 0xDC00 + ((point - 0x10000) & 0x3FFU));
  }
  return out + ">";
}

}  // namespace

std::string to_pdf(const Drawing& drawing, Theme theme, const std::string& title) {
  const PdfPainter painter(drawing, theme);
  std::string states;
  for (const auto& [opacity, state] : painter.opacities()) {
    states += "/G" + std::to_string(state) + " << /ca " + operand(opacity) + "/CA " +
              operand(opacity) + ">> ";
  }
  const std::string content = zlib_compressed(painter.content());
  const std::array<std::string, 5> objects = {
      "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
      "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 " + operand(drawing.width * kPointsPerUnit) +
          operand(drawing.height * kPointsPerUnit) + "] /Resources << /ExtGState << " + states +
          ">> >> /Contents 4 0 R >>",
      "<< /Filter /FlateDecode /Length " + std::to_string(content.size()) + " >>\nstream\n" +
          content + "\nendstream",
      "<< /Title " + title_text(title) + " >>"};
  std::string out = "%PDF-1.4\n%\xE2\xE3\xCF\xD3\n";  // bytes that mark the file as binary
  std::string table = "xref\n0 6\n0000000000 65535 f \n";
  for (std::size_t at = 0; at < objects.size(); ++at) {
    std::array<char, 24> place{};
    std::snprintf(place.data(), place.size(), "%010zu 00000 n \n", out.size());
    table += place.data();
    out += std::to_string(at + 1) + " 0 obj\n" + objects[at] + "\nendobj\n";
  }
  return out + table + "trailer << /Size 6 /Root 1 0 R /Info 5 0 R >>\nstartxref\n" +
         std::to_string(out.size()) + "\n%%EOF\n";
}

}  // namespace plimsoll::page
