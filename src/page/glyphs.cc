#include "page/glyphs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/utf8.h"

namespace plimsoll::page {
namespace {

// M x y begins a stroke. L x y draws a line. Q cx cy x y draws a quarter of an ellipse that is
// tangent to the sides of the corner (cx, cy) at both ends. D x y draws a dot.
struct Outline {
  std::uint32_t code_point;
  double width;
  std::string_view path;
};

#define PLIMSOLL_BOWL_LEFT "M0 5 Q0 10 4 10 Q8 10 8 5 Q8 0 4 0 Q0 0 0 5"
#define PLIMSOLL_BOWL_RIGHT "M8 5 Q8 10 4 10 Q0 10 0 5 Q0 0 4 0 Q8 0 8 5"
#define PLIMSOLL_ROUND_O "M0 7 Q0 0 5.2 0 Q10.4 0 10.4 7 Q10.4 14 5.2 14 Q0 14 0 7"
#define PLIMSOLL_LARGE_S                                                                      \
  "M7.8 11.2 Q7.3 14 4.2 14 Q0.4 14 0.4 10.7 Q0.4 8.2 4.1 7.2 Q8.3 6.2 8.3 3.6 Q8.3 0 4.2 0 " \
  "Q0.3 0 0 3.2"

constexpr std::array<Outline, 110> kOutlines = {{
    {' ', 2.0, ""},
    {'!', 0.4, "M0.2 14 L0.2 4.4 D0.2 0.5"},
    {'"', 3.2, "M0 14 L0 10 M3.2 14 L3.2 10"},
    {'#', 10, "M2.8 0 L4.6 14 M6.4 0 L8.2 14 M0.6 9.4 L10 9.4 M0 4.6 L9.4 4.6"},
    {'$', 8.3, PLIMSOLL_LARGE_S " M4.15 16 L4.15 -2"},
    {'%', 13.6,
     "M0 10.6 Q0 7.2 2.9 7.2 Q5.8 7.2 5.8 10.6 Q5.8 14 2.9 14 Q0 14 0 10.6 M10.6 14 L3 0 "
     "M7.8 3.4 Q7.8 0 10.7 0 Q13.6 0 13.6 3.4 Q13.6 6.8 10.7 6.8 Q7.8 6.8 7.8 3.4"},
    {'&', 10.6,
     "M10.6 0 L2.6 9 Q1.6 10.2 1.6 11.2 Q1.6 14 4.4 14 Q7 14 7 11.3 Q7 9.2 3.6 7.4 Q0 5.8 0 3.6 "
     "Q0 0 4.2 0 Q8.6 0 9.8 6.4"},
    {'\'', 0.4, "M0.2 14 L0.2 10"},
    {'(', 3, "M3 16 Q0 12 0 6.4 Q0 0.8 3 -3.2"},
    {')', 3, "M0 16 Q3 12 3 6.4 Q3 0.8 0 -3.2"},
    {'*', 6, "M3 14 L3 7 M0 12.2 L6 8.8 M6 12.2 L0 8.8"},
    {'+', 8, "M0 6 L8 6 M4 10 L4 2"},
    {',', 1, "M1 0.8 L0.2 -2.6"},
    {'-', 4.6, "M0 5.4 L4.6 5.4"},
    {'.', 0.6, "D0.3 0.4"},
    {'/', 5.6, "M0 -2 L5.6 15.4"},
    {'0', 8, "M0 4 Q0 0 4 0 Q8 0 8 4 L8 10 Q8 14 4 14 Q0 14 0 10 L0 4"},
    {'1', 8, "M1 11 L5 14 L5 0"},
    {'2', 8, "M0 10.5 Q0 14 4 14 Q8 14 8 10.3 Q8 8.3 6.3 6.4 L0.2 0 L8 0"},
    {'3', 8,
     "M0.3 11.4 Q0.6 14 4 14 Q7.6 14 7.6 10.8 Q7.6 7.6 4 7.6 L2.8 7.6 M4 7.6 Q8 7.6 8 3.9 "
     "Q8 0 4 0 Q0.3 0 0 2.9"},
    {'4', 8, "M6 0 L6 14 L-0.2 4.2 L8.4 4.2"},
    {'5', 8, "M7.4 14 L1.2 14 L0.7 7.4 Q2 8.9 4.2 8.9 Q8 8.9 8 4.5 Q8 0 3.9 0 Q0.6 0 0 2.6"},
    {'6', 8, "M7.3 12.3 Q6.5 14 4.2 14 Q0 14 0 7 L0 4.6 Q0 9 4 9 Q8 9 8 4.5 Q8 0 4 0 Q0 0 0 4.6"},
    {'7', 8, "M0 14 L8 14 L3 0"},
    {'8', 8,
     "M4 7.6 Q0.5 7.6 0.5 10.8 Q0.5 14 4 14 Q7.5 14 7.5 10.8 Q7.5 7.6 4 7.6 Q8 7.6 8 3.8 "
     "Q8 0 4 0 Q0 0 0 3.8 Q0 7.6 4 7.6"},
    {'9', 8, "M0.7 1.7 Q1.5 0 3.8 0 Q8 0 8 7 L8 9.4 Q8 5 4 5 Q0 5 0 9.5 Q0 14 4 14 Q8 14 8 9.4"},
    {':', 0.6, "D0.3 0.4 D0.3 8.4"},
    {';', 1, "M1 0.8 L0.2 -2.6 D0.8 8.4"},
    {'<', 8, "M8 10.6 L0 6 L8 1.4"},
    {'=', 8, "M0 8 L8 8 M0 4 L8 4"},
    {'>', 8, "M0 10.6 L8 6 L0 1.4"},
    {'?', 7.2, "M0 10.8 Q0 14 3.6 14 Q7.2 14 7.2 10.7 Q7.2 8.8 5.4 7.6 Q3.6 6.4 3.6 4.2 D3.6 0.5"},
    {'@', 13.6,
     "M9.6 5.2 Q9.6 8.8 6.8 8.8 Q4 8.8 4 5.2 Q4 1.6 6.8 1.6 Q9.6 1.6 9.6 5.2 M9.6 8.6 L9.6 4 "
     "Q9.6 1.6 11.6 1.6 Q13.6 1.6 13.6 6 Q13.6 13.4 7 13.4 Q0 13.4 0 5.4 Q0 -2.8 7 -2.8 "
     "Q9.4 -2.8 11 -2"},
    {'A', 10, "M0 0 L5 14 L10 0 M1.8 5 L8.2 5"},
    {'B', 8.6,
     "M0 0 L0 14 L4.6 14 Q8 14 8 10.8 Q8 7.6 4.6 7.6 L0 7.6 M4.6 7.6 Q8.6 7.6 8.6 3.8 "
     "Q8.6 0 4.6 0 L0 0"},
    {'C', 9.5, "M9.3 11 Q8.3 14 5.2 14 Q0 14 0 7 Q0 0 5.2 0 Q8.4 0 9.5 3.2"},
    {'D', 9.5, "M0 0 L0 14 L4 14 Q9.5 14 9.5 7 Q9.5 0 4 0 L0 0"},
    {'E', 7.5, "M7.5 0 L0 0 L0 14 L7.5 14 M0 7.5 L6.6 7.5"},
    {'F', 7.2, "M0 0 L0 14 L7.2 14 M0 7.3 L6.2 7.3"},
    {'G', 9.8, "M9.6 11.2 Q8.6 14 5.3 14 Q0 14 0 7 Q0 0 5.3 0 Q9.8 0 9.8 5 L9.8 6.4 L5.6 6.4"},
    {'H', 9, "M0 0 L0 14 M9 0 L9 14 M0 7.4 L9 7.4"},
    {'I', 0.4, "M0.2 0 L0.2 14"},
    {'J', 6, "M6 14 L6 4 Q6 0 3 0 Q0.3 0 0 3"},
    {'K', 8.8, "M0 0 L0 14 M8.4 14 L0 5.2 M3 8.3 L9 0"},
    {'L', 7, "M0 14 L0 0 L7 0"},
    {'M', 11.5, "M0 0 L0 14 L5.75 3.5 L11.5 14 L11.5 0"},
    {'N', 9, "M0 0 L0 14 L9 0 L9 14"},
    {'O', 10.4, PLIMSOLL_ROUND_O},
    {'P', 8.4, "M0 0 L0 14 L4.6 14 Q8.4 14 8.4 10.2 Q8.4 6.4 4.6 6.4 L0 6.4"},
    {'Q', 10.4, PLIMSOLL_ROUND_O " M6.4 3.4 L10.6 -0.8"},
    {'R', 8.8, "M0 0 L0 14 L4.6 14 Q8.2 14 8.2 10.4 Q8.2 6.8 4.6 6.8 L0 6.8 M4.8 6.8 L8.8 0"},
    {'S', 8.3, PLIMSOLL_LARGE_S},
    {'T', 9, "M0 14 L9 14 M4.5 14 L4.5 0"},
    {'U', 9, "M0 14 L0 4.6 Q0 0 4.5 0 Q9 0 9 4.6 L9 14"},
    {'V', 9.6, "M0 14 L4.8 0 L9.6 14"},
    {'W', 13.6, "M0 14 L3.4 0 L6.8 13 L10.2 0 L13.6 14"},
    {'X', 9, "M0 0 L9 14 M0 14 L9 0"},
    {'Y', 9, "M0 14 L4.5 6.6 L9 14 M4.5 6.6 L4.5 0"},
    {'Z', 8.6, "M0.2 14 L8.4 14 L0 0 L8.6 0"},
    {'[', 3, "M3 16 L0 16 L0 -3 L3 -3"},
    {'\\', 5.6, "M0 15.4 L5.6 -2"},
    {']', 3, "M0 16 L3 16 L3 -3 L0 -3"},
    {'^', 7, "M0 8.6 L3.5 14 L7 8.6"},
    {'_', 8, "M0 -2.4 L8 -2.4"},
    {'`', 2, "M0 14.6 L2 12"},
    {'a', 7.2,
     "M0.5 8 Q1 10 3.9 10 Q7.2 10 7.2 6.8 L7.2 0 M7.2 5.8 L3.6 5.8 Q0 5.6 0 2.8 Q0 0 3.2 0 "
     "Q7.2 0 7.2 4"},
    {'b', 8, "M0 0 L0 15 " PLIMSOLL_BOWL_LEFT},
    {'c', 7.2, "M7 7.6 Q6.4 10 4 10 Q0 10 0 5 Q0 0 4 0 Q6.6 0 7.2 2.6"},
    {'d', 8, "M8 0 L8 15 " PLIMSOLL_BOWL_RIGHT},
    {'e', 7.8, "M0 5.2 L7.8 5.2 Q7.8 10 4 10 Q0 10 0 5 Q0 0 4.1 0 Q6.6 0 7.5 2.2"},
    {'f', 4.4, "M1.6 0 L1.6 11.6 Q1.6 15 4.8 14.9 M0 10 L4.4 10"},
    {'g', 8,
     "M8 10 L8 0 Q8 -4.2 4 -4.2 Q1.2 -4.2 0.5 -2.3 M8 5.1 Q8 10 4 10 Q0 10 0 5.1 Q0 0.2 4 0.2 "
     "Q8 0.2 8 5.1"},
    {'h', 7.4, "M0 0 L0 15 M0 5.6 Q0 10 3.8 10 Q7.4 10 7.4 6 L7.4 0"},
    {'i', 0.4, "M0.2 0 L0.2 10 D0.2 13.7"},
    {'j', 2.2, "M2 10 L2 -1.4 Q2 -4.2 -0.6 -4.1 D2 13.7"},
    {'k', 7, "M0 0 L0 15 M6.8 10 L0 3.6 M2.6 6 L7.2 0"},
    {'l', 2, "M0.2 15 L0.2 2.4 Q0.2 0 2.4 0.1"},
    {'m', 12.4,
     "M0 0 L0 10 M0 6 Q0 10 3.3 10 Q6.2 10 6.2 6.4 L6.2 0 M6.2 6 Q6.2 10 9.5 10 Q12.4 10 12.4 6.4 "
     "L12.4 0"},
    {'n', 7.4, "M0 0 L0 10 M0 5.6 Q0 10 3.8 10 Q7.4 10 7.4 6 L7.4 0"},
    {'o', 8, PLIMSOLL_BOWL_LEFT},
    {'p', 8, "M0 -4.2 L0 10 " PLIMSOLL_BOWL_LEFT},
    {'q', 8, "M8 -4.2 L8 10 " PLIMSOLL_BOWL_RIGHT},
    {'r', 4.2, "M0 0 L0 10 M0 5.8 Q0.2 10 4.4 9.9"},
    {'s', 6.9,
     "M6.4 8 Q6 10 3.5 10 Q0.4 10 0.4 7.6 Q0.4 5.8 3.4 5.1 Q6.9 4.4 6.9 2.5 Q6.9 0 3.5 0 "
     "Q0.3 0 0 2.3"},
    {'t', 4.6, "M1.6 13 L1.6 3 Q1.6 0 4.8 0.2 M0 10 L4.6 10"},
    {'u', 7.4, "M0 10 L0 4 Q0 0 3.6 0 Q7.4 0 7.4 4.4 M7.4 10 L7.4 0"},
    {'v', 7.2, "M0 10 L3.6 0 L7.2 10"},
    {'w', 11, "M0 10 L2.8 0 L5.5 9.4 L8.2 0 L11 10"},
    {'x', 7, "M0 10 L7 0 M0 0 L7 10"},
    {'y', 7.3, "M0 10 L3.7 0 M7.3 10 L3.7 0 L2.7 -2.6 Q2 -4.2 0.2 -4.1"},
    {'z', 6.8, "M0.2 10 L6.6 10 L0 0 L6.8 0"},
    {'{', 3.6,
     "M3.6 16 Q1.6 16 1.6 13.6 L1.6 9 Q1.6 6.5 0 6.5 Q1.6 6.5 1.6 4 L1.6 -0.6 Q1.6 -3 3.6 -3"},
    {'|', 0.4, "M0.2 16 L0.2 -3"},
    {'}', 3.6, "M0 16 Q2 16 2 13.6 L2 9 Q2 6.5 3.6 6.5 Q2 6.5 2 4 L2 -0.6 Q2 -3 0 -3"},
    {'~', 8, "M0 4.8 Q0 7.2 2.2 7.2 Q3.4 7.2 4.2 6 Q5 4.8 6 4.8 Q8 4.8 8 7.2"},
    {0xA0, 2.0, ""},
    {0xB0, 4.4, "M0 11.8 Q0 9.6 2.2 9.6 Q4.4 9.6 4.4 11.8 Q4.4 14 2.2 14 Q0 14 0 11.8"},
    {0xB1, 8, "M0 7.4 L8 7.4 M4 11.4 L4 3.4 M0 0 L8 0"},
    {0xB5, 7.4, "M0 10 L0 -4.2 M0 4 Q0 0 3.6 0 Q7.4 0 7.4 4.4 M7.4 10 L7.4 0"},
    {0xB7, 0.6, "D0.3 5.8"},
    {0xD7, 7, "M0.3 9.3 L6.7 2.9 M0.3 2.9 L6.7 9.3"},
    {0x2009, 0.6, ""},  // thin space
    {0x2013, 8, "M0 5.4 L8 5.4"},
    {0x2014, 13, "M0 5.4 L13 5.4"},
    {0x2026, 10, "D0.6 0.4 D5 0.4 D9.4 0.4"},
    {0x2190, 11, "M11 6 L0 6 M3.6 9.6 L0 6 L3.6 2.4"},
    {0x2192, 11, "M0 6 L11 6 M7.4 9.6 L11 6 L7.4 2.4"},
    {0x2212, 8, "M0 6 L8 6"},
    {0x2264, 8, "M8 11.8 L0 7.6 L8 3.4 M0 0.6 L8 0.6"},
    {0x2265, 8, "M0 11.8 L8 7.6 L0 3.4 M0 0.6 L8 0.6"},
}};

#undef PLIMSOLL_BOWL_LEFT
#undef PLIMSOLL_BOWL_RIGHT
#undef PLIMSOLL_ROUND_O
#undef PLIMSOLL_LARGE_S

constexpr Outline kBox = {0xFFFD, 8, "M0 0 L8 0 L8 14 L0 14 L0 0"};
constexpr double kSideBearing = 1.8;
constexpr double kMonoAdvance = 0.6 / kGlyphUnit;
constexpr double kMonoWidest = 9.4;
constexpr int kCurveParts = 6;

class OutlineReader {
 public:
  explicit OutlineReader(std::string_view path) : rest_(path) {}

  Glyph read() {
    Glyph glyph;
    for (skip_spaces(); !rest_.empty(); skip_spaces()) {
      const char command = rest_.front();
      rest_.remove_prefix(1);
      const Point point = next_point();
      if (command == 'M') glyph.strokes.push_back({point});
      if (command == 'L') glyph.strokes.back().push_back(point);
      if (command == 'Q') add_quarter(glyph.strokes.back(), point, next_point());
      if (command == 'D') glyph.dots.push_back(point);
    }
    return glyph;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  double next_number() {
    skip_spaces();
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  Point next_point() {
    const double x = next_number();
    return {x, next_number()};
  }
  // The rational curve with weight sqrt(1/2) is a quarter of an ellipse.
  static void add_quarter(std::vector<Point>& stroke, Point corner, Point end) {
    const Point begin = stroke.back();
    for (int part = 1; part <= kCurveParts; ++part) {
      const double t = static_cast<double>(part) / kCurveParts;
      const double a = (1 - t) * (1 - t);
      const double b = std::sqrt(2.0) * t * (1 - t);
      const double c = t * t;
      stroke.push_back({(a * begin.x + b * corner.x + c * end.x) / (a + b + c),
                        (a * begin.y + b * corner.y + c * end.y) / (a + b + c)});
    }
  }

  std::string_view rest_;
};

void stretch(Glyph& glyph, double factor, double shift) {
  const auto move = [&](Point& point) { point.x = point.x * factor + shift; };
  for (auto& stroke : glyph.strokes) std::ranges::for_each(stroke, move);
  std::ranges::for_each(glyph.dots, move);
}

}  // namespace

Glyph glyph_of(std::uint32_t code_point, bool is_mono) {
  const auto found = std::ranges::lower_bound(kOutlines, code_point, {}, &Outline::code_point);
  const bool is_known = found != kOutlines.end() && found->code_point == code_point;
  const Outline& outline = is_known ? *found : kBox;
  Glyph glyph = OutlineReader(outline.path).read();
  if (is_mono) {
    const double factor = outline.width > kMonoWidest ? kMonoWidest / outline.width : 1;
    stretch(glyph, factor, (kMonoAdvance - outline.width * factor) / 2);
    glyph.advance = kMonoAdvance;
  } else {
    stretch(glyph, 1, kSideBearing);
    glyph.advance = outline.width + 2 * kSideBearing;
  }
  return glyph;
}

PlacedText placed(const Text& text, double most) {
  constexpr double kBoldSpacing = 0.6;  // between letters
  PlacedText out;
  for (const bool is_tail : {false, true}) {
    for (std::string_view rest = is_tail ? text.tail : text.text; !rest.empty();) {
      const std::size_t length = base::utf8_sequence_length(rest);
      const std::string_view front = rest.substr(0, length == 0 ? 1 : length);
      rest.remove_prefix(front.size());
      const std::uint32_t point = length == 0 ? 0xFFFD : base::code_point(front);
      out.glyphs.push_back({glyph_of(point, text.is_mono), out.advance, is_tail});
      out.advance += out.glyphs.back().glyph.advance + (text.is_bold ? kBoldSpacing : 0);
      if (out.advance > most) break;
    }
  }
  if (text.anchor == Anchor::kMiddle) out.start = -out.advance / 2;
  if (text.anchor == Anchor::kEnd) out.start = -out.advance;
  return out;
}

}  // namespace plimsoll::page
