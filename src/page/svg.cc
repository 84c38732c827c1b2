#include "page/svg.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "page/escape.h"

namespace plimsoll::page {
namespace {

constexpr std::size_t kLongestKey = 300;  // characters
constexpr std::string_view kSans =
    "Inter, ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', "
    "sans-serif";
constexpr std::string_view kMono =
    "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace";
constexpr double kMainSize = 11;  // size of text without a font-size attribute
constexpr double kFarthest = 1e6;

// Two decimals at most, since no screen shows more.
std::int64_t hundredths(double value) {
  if (!std::isfinite(value)) return 0;
  return std::llround(std::clamp(value, -kFarthest, kFarthest) * 100);
}

void append_hundredths(std::string& out, std::int64_t value) {
  std::array<char, 24> digits{};
  if (value < 0) out += '-';
  const std::int64_t size = std::abs(value);
  if (size >= 100 || size == 0) {
    out.append(digits.data(),
               std::to_chars(digits.data(), digits.data() + digits.size(), size / 100).ptr);
  }
  const auto fraction = static_cast<int>(size % 100);
  if (fraction == 0) return;
  out += '.';
  out += static_cast<char>('0' + fraction / 10);
  if (fraction % 10 != 0) out += static_cast<char>('0' + fraction % 10);
}

std::string number(double value) {
  std::string out;
  append_hundredths(out, hundredths(value));
  return out;
}

// A path in relative coordinates with one decimal, which are short. Positions are rounded before
// the subtraction, so errors do not accumulate.
class Path {
 public:
  void move(double x, double y) { go('m', x, y); }
  void line(double x, double y) { go('l', x, y); }
  void horizontal(double x) {
    const std::int64_t to = tenths(x);
    if (to != x_) step('h', to - x_);
    x_ = to;
  }
  void vertical(double y) {
    const std::int64_t to = tenths(y);
    if (to != y_) step('v', to - y_);
    y_ = to;
  }
  void close() { data_ += 'z'; }
  const std::string& data() const { return data_; }

  // After 'z', the current point is where the closed part began.
  void closed_at(double x, double y) {
    x_ = tenths(x);
    y_ = tenths(y);
  }

 private:
  static std::int64_t tenths(double value) {
    const std::int64_t size = hundredths(value);
    return (size + (size < 0 ? -5 : 5)) / 10;
  }
  void go(char command, double x, double y) {
    const std::int64_t to_x = tenths(x);
    const std::int64_t to_y = tenths(y);
    step(command, to_x - x_);
    if (to_y - y_ >= 0) data_ += ' ';
    append_hundredths(data_, (to_y - y_) * 10);
    x_ = to_x;
    y_ = to_y;
  }
  void step(char command, std::int64_t by) {
    data_ += command;
    append_hundredths(data_, by * 10);
  }

  std::string data_;
  std::int64_t x_ = 0;
  std::int64_t y_ = 0;
};

class SvgWriter {
 public:
  SvgWriter(const Drawing& drawing, const SvgOptions& options)
      : drawing_(drawing), options_(options) {}

  std::string write() {
    for (const Shape& shape : drawing_.shapes) {
      std::visit([this](const auto& each) { add(each); }, shape);
    }
    return head() + patterns() + body_ + "</svg>\n";
  }

 private:
  bool has_classes() const { return options_.colors == SvgColors::kOfStylesheet; }

  std::string color(Paint paint) const { return css_color(color_of(paint, options_.theme)); }

  std::string head() const {
    const std::string width = number(drawing_.width);
    const std::string height = number(drawing_.height);
    // In HTML, the parser knows the namespace without the attribute.
    const char* const names = has_classes() ? "" : " xmlns=\"http://www.w3.org/2000/svg\"";
    std::string out = std::string("<svg") + names + " width=\"" + width + "\" height=\"" + height +
                      "\" viewBox=\"0 0 " + width + " " + height + "\" role=\"img\" font-size=\"" +
                      number(kMainSize) + "\"";
    if (has_classes()) {
      out += " class=\"chart\">";
    } else {
      out += " font-family=\"" + escape_html(kSans) + "\">";
    }
    if (!options_.title.empty()) out += "<title>" + escape_html(options_.title) + "</title>";
    if (!options_.description.empty()) {
      out += "<desc>" + escape_html(options_.description) + "</desc>";
    }
    out += '\n';
    if (!has_classes()) {
      out += "<rect width=\"" + width + "\" height=\"" + height + "\" fill=\"" +
             color(Paint::kBackground) + "\"/>\n";
    }
    return out;
  }

  // fill="..." or stroke="...", or the classes of both in one attribute.
  std::string paints(Paint fill, Paint stroke) const {
    if (has_classes()) {
      std::string classes;
      if (fill != Paint::kNone) classes = "p-" + std::string(name_of(fill));
      if (stroke != Paint::kNone) {
        classes += (classes.empty() ? "s-" : " s-") + std::string(name_of(stroke));
      }
      std::string out = classes.empty() ? "" : " class=\"" + classes + "\"";
      return fill == Paint::kNone ? out + " fill=\"none\"" : out;
    }
    std::string out = " fill=\"" + (fill == Paint::kNone ? "none" : color(fill)) + "\"";
    if (stroke != Paint::kNone) out += " stroke=\"" + color(stroke) + "\"";
    return out;
  }

  std::string fill_of(Paint paint) const {
    if (has_classes()) return " class=\"p-" + std::string(name_of(paint)) + "\"";
    return " fill=\"" + color(paint) + "\"";
  }

  static std::string opacity(std::string_view attribute, double value) {
    if (value >= 1) return {};
    return " " + std::string(attribute) + "=\"" + number(value) + "\"";
  }

  static std::string lines(const Stroke& stroke) {
    if (stroke.paint == Paint::kNone) return {};
    std::string out;
    if (stroke.width != 1) out += " stroke-width=\"" + number(stroke.width) + "\"";
    if (stroke.dash > 0) {
      out += " stroke-dasharray=\"" + number(stroke.dash) + " " + number(stroke.gap) + "\"";
    }
    return out + opacity("stroke-opacity", stroke.opacity);
  }

  // Adds an element with its fill and, if hatched, a second one with the hatch. The topmost element
  // has the hint.
  void add_filled(const std::string& element, const Fill& fill, const Stroke& outline,
                  const Hint& hint) {
    const std::string key =
        hint.key.empty() ? ""
                         : " data-key=\"" + escape_html(shortened(hint.key, kLongestKey)) + "\"";
    const std::string tooltip =
        hint.tooltip.empty() ? "" : "<title>" + escape_html(hint.tooltip) + "</title>";
    const std::string name = element.substr(1, element.find(' ') - 1);
    const std::string end = tooltip.empty() ? "/>\n" : ">" + tooltip + "</" + name + ">\n";
    const bool is_hatched = fill.hatch != Paint::kNone;
    if (!is_hatched || fill.paint != Paint::kNone || outline.paint != Paint::kNone) {
      body_ += element + paints(fill.paint, outline.paint) + opacity("fill-opacity", fill.opacity) +
               lines(outline) + (is_hatched ? "/>\n" : key + end);
    }
    if (!is_hatched) return;
    const Hatch hatch = {fill.hatch, fill.slope};
    hatches_.insert(hatch);
    body_ += element + " fill=\"url(#" + hatch_id(hatch) + ")\"" + key + end;
  }

  void add(const Rect& rect) {
    if (!(rect.width > 0 && rect.height > 0)) return;
    add_filled("<rect x=\"" + number(rect.x) + "\" y=\"" + number(rect.y) + "\" width=\"" +
                   number(std::max(rect.width, 0.01)) + "\" height=\"" +
                   number(std::max(rect.height, 0.01)) + "\"",
               rect.fill, rect.outline, rect.hint);
  }

  // Each run of steps that have a height is one closed part of the path.
  void add(const Area& area) {
    Path path;
    const std::size_t count = area.tops.size();
    const auto is_empty = [&](std::size_t i) { return !(area.bottoms[i] > area.tops[i]); };
    for (std::size_t begin = 0; begin < count;) {
      if (is_empty(begin)) {
        ++begin;
        continue;
      }
      std::size_t end = begin;
      path.move(area.edges[begin], area.bottoms[begin]);
      for (; end < count && !is_empty(end); ++end) {
        path.vertical(area.tops[end]);
        path.horizontal(area.edges[end + 1]);
      }
      for (std::size_t i = end; i-- > begin;) {
        path.vertical(area.bottoms[i]);
        path.horizontal(area.edges[i]);
      }
      path.close();
      path.closed_at(area.edges[begin], area.bottoms[begin]);
      begin = end;
    }
    if (path.data().empty()) return;
    add_filled("<path d=\"" + path.data() + "\"", area.fill, {}, area.hint);
  }

  void add(const Polyline& polyline) {
    if (polyline.points.size() < 2) return;
    Path path;
    path.move(polyline.points[0].x, polyline.points[0].y);
    for (std::size_t i = 1; i < polyline.points.size(); ++i) {
      const Point& from = polyline.points[i - 1];
      const Point& to = polyline.points[i];
      if (from.y == to.y) {
        path.horizontal(to.x);
      } else if (from.x == to.x) {
        path.vertical(to.y);
      } else {
        path.line(to.x, to.y);
      }
    }
    body_ += "<path d=\"" + path.data() + "\"" + paints(Paint::kNone, polyline.stroke.paint) +
             lines(polyline.stroke) + "/>\n";
  }

  void add(const Circle& circle) {
    add_filled("<circle cx=\"" + number(circle.x) + "\" cy=\"" + number(circle.y) + "\" r=\"" +
                   number(circle.radius) + "\"",
               circle.fill, circle.outline, circle.hint);
  }

  void add(const Text& text) {
    if (text.text.empty()) return;
    body_ += "<text x=\"" + number(text.x) + "\" y=\"" + number(text.y) + "\"";
    if (text.size != kMainSize) body_ += " font-size=\"" + number(text.size) + "\"";
    if (text.anchor == Anchor::kMiddle) body_ += " text-anchor=\"middle\"";
    if (text.anchor == Anchor::kEnd) body_ += " text-anchor=\"end\"";
    if (text.is_bold) body_ += " font-weight=\"600\"";
    if (text.is_mono && has_classes()) {
      body_ += " class=\"mono p-" + std::string(name_of(text.paint)) + "\"";
    } else {
      if (text.is_mono) body_ += " font-family=\"" + escape_html(kMono) + "\"";
      body_ += fill_of(text.paint);
    }
    if (text.degrees != 0) {
      body_ += " transform=\"rotate(" + number(text.degrees) + " " + number(text.x) + " " +
               number(text.y) + ")\"";
    }
    body_ += ">" + escape_html(text.text);
    if (!text.tail.empty()) {
      body_ += "<tspan" + fill_of(text.tail_paint) + ">" + escape_html(text.tail) + "</tspan>";
    }
    body_ += "</text>\n";
  }

  using Hatch = std::pair<Paint, HatchSlope>;

  std::string hatch_id(const Hatch& hatch) const {
    return escape_html(options_.id_prefix) + "-" + std::string(name_of(hatch.first)) +
           (hatch.second == HatchSlope::kFalling ? "-falling" : "");
  }

  std::string patterns() const {
    std::string out;
    for (const Hatch& hatch : hatches_) {
      const bool is_rising = hatch.second == HatchSlope::kRising;
      out += "<pattern id=\"" + hatch_id(hatch) +
             "\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"" +
             (is_rising ? "M-1 1l2-2M0 6l6-6M5 7l2-2" : "M-1 5l2 2M0 0l6 6M5-1l2 2") + "\"" +
             paints(Paint::kNone, hatch.first) + " stroke-width=\"" + number(kHatchWidth) +
             "\" stroke-opacity=\"" + number(kHatchOpacity) + "\"/></pattern>\n";
    }
    return out.empty() ? out : "<defs>" + out + "</defs>\n";
  }

  const Drawing& drawing_;
  const SvgOptions& options_;
  std::string body_;
  std::set<Hatch> hatches_;
};

}  // namespace

std::string to_svg(const Drawing& drawing, const SvgOptions& options) {
  return SvgWriter(drawing, options).write();
}

std::string css_color(Color color) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", color.red, color.green, color.blue);
  return text.data();
}

std::string css_of_paints(Theme theme) {
  std::string css;
  for (const Paint paint : kPaints) {
    css += "--" + std::string(name_of(paint)) + ":" + css_color(color_of(paint, theme)) + ";";
  }
  return css;
}

std::string css_of_classes() {
  std::string css;
  for (const Paint paint : kPaints) {
    const std::string name(name_of(paint));
    css.append(".p-").append(name).append("{fill:var(--").append(name).append(")}");
    css.append(".s-").append(name).append("{stroke:var(--").append(name).append(")}");
  }
  return css + ".mono{font-family:var(--mono)}";
}

}  // namespace plimsoll::page
