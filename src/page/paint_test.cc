#include "page/paint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/categories.h"

namespace plimsoll::page {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector times(const Matrix& matrix, const Vector& v) {
  Vector out{};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < 3; ++i) out[row] += matrix[row][i] * v[i];
  }
  return out;
}

Vector linear(Color color) {
  const auto channel = [](std::uint8_t value) {
    const double share = value / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return {channel(color.red), channel(color.green), channel(color.blue)};
}

double contrast(Color a, Color b) {
  const auto luminance = [](Color color) {
    const Vector v = linear(color);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
  };
  const double low = std::min(luminance(a), luminance(b));
  return (std::max(luminance(a), luminance(b)) + 0.05) / (low + 0.05);
}

// Normal vision, then protanopia, deuteranopia and tritanopia (Machado et al. 2009, severity 1).
constexpr std::array<Matrix, 4> kVisions = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};
constexpr Matrix kToCones = {{{0.4122214708, 0.5363325363, 0.0514459929},
                              {0.2119034982, 0.6806995451, 0.1073969566},
                              {0.0883024619, 0.2817188376, 0.6299787005}}};
constexpr Matrix kToLab = {{{0.2104542553, 0.7936177850, -0.0040720468},
                            {1.9779984951, -2.4285922050, 0.4505937099},
                            {0.0259040371, 0.7827717662, -0.8086757660}}};

Vector oklab(Color color, const Matrix& vision) {
  Vector seen = times(vision, linear(color));
  for (double& channel : seen) channel = std::max(channel, 0.0);
  Vector cones = times(kToCones, seen);
  for (double& cone : cones) cone = std::cbrt(cone);
  return times(kToLab, cones);
}

// The distance in OKLab, times 100, for the type of vision that distinguishes them least.
double least_distance(Color a, Color b) {
  double least = 1e9;
  for (const Matrix& vision : kVisions) {
    const Vector x = oklab(a, vision);
    const Vector y = oklab(b, vision);
    least = std::min(least, 100 * std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]));
  }
  return least;
}

std::vector<Paint> categories() {
  std::vector<Paint> found;
  for (const Paint paint : kPaints) {
    if (paint >= Paint::kParameter && paint <= Paint::kPinnedHost) found.push_back(paint);
  }
  return found;
}

class Themes : public testing::TestWithParam<Theme> {};
INSTANTIATE_TEST_SUITE_P(All, Themes, testing::Values(Theme::kLight, Theme::kDark, Theme::kPrint));

TEST_P(Themes, every_category_has_contrast_with_the_background) {
  const Color background = color_of(Paint::kBackground, GetParam());
  for (const Paint paint : categories()) {
    // In the dark theme, hatch and outline make "unknown" visible.
    const double least = paint == Paint::kUnknown ? 2.8 : 3.0;
    EXPECT_GE(contrast(color_of(paint, GetParam()), background), least) << name_of(paint);
  }
}

TEST_P(Themes, text_has_contrast_with_the_background) {
  const Color background = color_of(Paint::kBackground, GetParam());
  for (const Paint paint : {Paint::kInk, Paint::kMuted, Paint::kFaint, Paint::kAccent,
                            Paint::kCritical, Paint::kWarning, Paint::kOk}) {
    EXPECT_GE(contrast(color_of(paint, GetParam()), background), 4.5) << name_of(paint);
  }
}

TEST_P(Themes, categories_are_distinct_for_color_blind_people) {
  const std::vector<Paint> all = categories();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      EXPECT_GE(least_distance(color_of(all[i], GetParam()), color_of(all[k], GetParam())), 5.0)
          << name_of(all[i]) << " and " << name_of(all[k]);
    }
  }
}

TEST(Paint, every_category_of_recordings_has_its_paint) {
  for (const std::string_view name : base::kCategoryNames) {
    EXPECT_EQ(name_of(paint_of_category(name)), name);
  }
  EXPECT_EQ(paint_of_category("pinned_host"), Paint::kPinnedHost);
  EXPECT_EQ(paint_of_category("no such category"), Paint::kOther);
  EXPECT_EQ(paint_of_category("ink"), Paint::kOther);
}

TEST(Paint, colors_are_those_of_the_design) {
  EXPECT_EQ(color_of(Paint::kParameter, Theme::kLight), (Color{0x2e, 0x53, 0x95}));
  EXPECT_EQ(color_of(Paint::kParameter, Theme::kDark), (Color{0x3f, 0x8f, 0xe6}));
  EXPECT_EQ(color_of(Paint::kUnknown, Theme::kPrint), (Color{0x3a, 0x41, 0x48}));
  EXPECT_EQ(color_of(Paint::kBackground, Theme::kPrint), (Color{255, 255, 255}));
}

TEST(Paint, neighbors_in_the_cycle_of_series_are_distinct) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NE(paint_of_series(i), paint_of_series(i + 1));
      EXPECT_GE(least_distance(color_of(paint_of_series(i), theme),
                               color_of(paint_of_series(i + 1), theme)),
                6.0)
          << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::page
