#include "page/png.h"

#include <array>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "page/deflate.h"
#include "page/glyphs.h"
#include "tests/support/png_image.h"

namespace plimsoll::page {
namespace {

using Pixel = std::array<int, 3>;
constexpr Pixel kWhite = {255, 255, 255};
constexpr Pixel kBlue = {0x2e, 0x53, 0x95};

tests::PngImage decoded(const Drawing& drawing, double scale = 1, Theme theme = Theme::kPrint) {
  tests::PngImage image;
  EXPECT_EQ(tests::PngReader(to_png(drawing, theme, scale)).read(image), "");
  return image;
}

TEST(Png, checksums_are_the_standard_ones) {
  EXPECT_EQ(crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(adler32("Wikipedia"), 0x11E60398u);
}

TEST(Png, an_empty_drawing_is_background) {
  const auto image = decoded({7, 5});
  EXPECT_EQ(image.width, 7u);
  EXPECT_EQ(image.height, 5u);
  EXPECT_EQ(image.pixel(6, 4), kWhite);
  EXPECT_EQ(decoded({7, 5}, 2).width, 14u);
  EXPECT_EQ(decoded({7, 5}, 1, Theme::kDark).pixel(0, 0), (Pixel{0x14, 0x17, 0x1b}));
}

TEST(Png, rectangles_cover_their_pixels_and_parts_of_pixels) {
  Drawing drawing{10, 10};
  drawing.add(Rect{2, 3, 4.5, 2, {Paint::kParameter}});
  const auto image = decoded(drawing);
  EXPECT_EQ(image.pixel(2, 3), kBlue);
  EXPECT_EQ(image.pixel(5, 4), kBlue);
  EXPECT_EQ(image.pixel(1, 3), kWhite);
  EXPECT_EQ(image.pixel(2, 5), kWhite);
  EXPECT_EQ(image.pixel(6, 3)[0], (255 + 0x2e + 1) / 2) << "half covered";
  EXPECT_EQ(decoded(drawing, 2).pixel(12, 6), kBlue);
  EXPECT_EQ(decoded(drawing, 2).pixel(13, 6), kWhite);
}

TEST(Png, opacity_mixes_with_what_is_below) {
  Drawing drawing{4, 4};
  drawing.add(Rect{0, 0, 4, 4, {Paint::kParameter, 0.5}});
  EXPECT_EQ(decoded(drawing).pixel(1, 1), (Pixel{151, 169, 202}));
}

TEST(Png, neighboring_steps_of_an_area_have_no_gap) {
  Drawing drawing{10, 10};
  drawing.add(Area{{0, 3.3, 6.7, 10}, {2, 4, 2}, {8, 8, 8}, {Paint::kParameter}});
  const auto image = decoded(drawing);
  for (std::size_t x = 0; x < 10; ++x) {
    EXPECT_NEAR(image.pixel(x, 6)[0], kBlue[0], 2) << x;
    EXPECT_EQ(image.pixel(x, 8), kWhite) << x;
  }
  EXPECT_EQ(image.pixel(1, 2), kBlue);
  EXPECT_EQ(image.pixel(5, 3), kWhite);
}

TEST(Png, lines_and_dashes_are_where_they_are_drawn) {
  Drawing drawing{20, 10};
  drawing.line({0, 2.5}, {20, 2.5}, {Paint::kParameter});
  drawing.line({0, 5.5}, {20, 5.5}, {Paint::kParameter, 1, 4, 2});
  const auto image = decoded(drawing);
  EXPECT_EQ(image.pixel(10, 2), kBlue);
  EXPECT_EQ(image.pixel(10, 1), kWhite);
  EXPECT_EQ(image.pixel(10, 3), kWhite);
  EXPECT_EQ(image.pixel(0, 5), kBlue);
  EXPECT_EQ(image.pixel(3, 5), kBlue);
  EXPECT_EQ(image.pixel(4, 5), kWhite);
  EXPECT_EQ(image.pixel(4, 4), kWhite) << "a corner of the square around it";
  EXPECT_EQ(image.pixel(6, 5), kBlue);
}

TEST(Png, hatches_leave_some_of_the_surface) {
  Drawing drawing{24, 24};
  drawing.add(Rect{0, 0, 24, 24, {Paint::kParameter, 1, Paint::kBackground}});
  const auto image = decoded(drawing);
  int plain = 0;
  for (std::size_t x = 0; x < 24; ++x) plain += image.pixel(x, 12) == kBlue ? 1 : 0;
  EXPECT_GT(plain, 6);
  EXPECT_LT(plain, 20);
}

TEST(Png, falling_hatches_mirror_rising_ones) {
  Drawing drawing{24, 48};
  drawing.add(Rect{0, 0, 24, 24, {Paint::kParameter, 1, Paint::kBackground}});
  drawing.add(
      Rect{0, 24, 24, 24, {Paint::kParameter, 1, Paint::kBackground, HatchSlope::kFalling}});
  const auto image = decoded(drawing);
  for (std::size_t x = 0; x < 24; ++x) {
    EXPECT_EQ(image.pixel(x, 5), image.pixel(23 - x, 24 + 5)) << x;
  }
  EXPECT_NE(image.pixel(5, 0), image.pixel(5, 24));
}

TEST(Png, circles_are_round) {
  Drawing drawing{20, 20};
  drawing.add(Circle{10, 10, 6, {Paint::kParameter}});
  const auto image = decoded(drawing);
  EXPECT_EQ(image.pixel(10, 10), kBlue);
  EXPECT_EQ(image.pixel(9, 5), kBlue);
  EXPECT_EQ(image.pixel(4, 4), kWhite) << "a corner of the square around it";
}

// Counts the pixels of a text that are at least half covered.
int inked(const std::string& text, Anchor anchor, std::size_t from_x, std::size_t to_x) {
  Drawing drawing{100, 30};
  drawing.add(Text{50, 20, text, 12, Paint::kInk, anchor});
  const auto image = decoded(drawing, 2);
  int count = 0;
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = from_x; x < to_x; ++x) count += image.pixel(x, y)[0] < 140 ? 1 : 0;
  }
  return count;
}

TEST(Png, text_is_on_its_side_of_the_anchor) {
  EXPECT_GT(inked("Peak", Anchor::kStart, 100, 200), 60);
  EXPECT_EQ(inked("Peak", Anchor::kStart, 0, 100), 0);
  EXPECT_GT(inked("Peak", Anchor::kEnd, 0, 100), 60);
  EXPECT_EQ(inked("Peak", Anchor::kEnd, 100, 200), 0);
  EXPECT_NEAR(inked("MM", Anchor::kMiddle, 0, 100), inked("MM", Anchor::kMiddle, 100, 200), 12);
}

TEST(Png, every_character_of_ascii_has_a_shape_of_its_own) {
  for (std::uint32_t point = '!'; point < 0x7F; ++point) {
    const Glyph glyph = glyph_of(point, false);
    EXPECT_GT(glyph.advance, 3) << point;
    EXPECT_FALSE(glyph.strokes.empty() && glyph.dots.empty()) << point;
    for (const auto& stroke : glyph.strokes) {
      ASSERT_GE(stroke.size(), 2u) << point;
      for (const Point& at : stroke) {
        EXPECT_GE(at.x, 0) << point;
        EXPECT_LE(at.x, glyph.advance) << point;
        EXPECT_GE(at.y, -5) << point;
        EXPECT_LE(at.y, 17) << point;
      }
    }
    EXPECT_DOUBLE_EQ(glyph_of(point, true).advance, glyph_of('x', true).advance);
  }
  EXPECT_EQ(glyph_of(0x6F22, false).strokes.size(), 1u) << "a box";
}

TEST(Png, odd_numbers_and_texts_do_no_harm) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Drawing drawing{30, 30};
  drawing.add(Rect{nan, -1e300, 1e300, 1e308, {Paint::kInk}, {Paint::kInk}});
  drawing.add(Area{{0, nan, 1e300}, {nan, -1e300}, {5, 1e300}, {Paint::kInk}});
  drawing.add(Polyline{{{nan, 3}, {1e300, -1e300}}, {Paint::kInk, 1, 0.001, 0}});
  drawing.add(Circle{1e300, nan, 1e300, {Paint::kInk}});
  drawing.add(Text{0, 10, std::string(1 << 20, '\xFF'), 11, Paint::kInk, Anchor::kEnd});
  EXPECT_EQ(decoded(drawing).width, 30u);
  EXPECT_EQ(decoded({nan, 5}).width, 1u);
  EXPECT_EQ(decoded({4, 4}, nan).width, 4u);
}

TEST(Png, a_large_drawing_gets_a_smaller_scale) { EXPECT_EQ(decoded({40'000, 2}).width, 16'384u); }

TEST(Deflate, any_bytes_come_back) {
  std::uint32_t state = 1;
  Drawing noise{64, 64};
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      state = state * 1664525 + 1013904223;
      noise.add(Rect{static_cast<double>(x),
                     static_cast<double>(y),
                     1,
                     1,
                     {kPaints[state >> 24 & 31], (state >> 16 & 255) / 255.0}});
    }
  }
  const auto image = decoded(noise);  // checks the lengths and checksums
  EXPECT_NE(image.pixel(3, 3), image.pixel(4, 3));
  EXPECT_LT(to_png({1200, 400}, Theme::kLight, 2).size(), 40'000u) << "of 2.9 MB";
}

}  // namespace
}  // namespace plimsoll::page
