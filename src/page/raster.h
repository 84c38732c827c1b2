// An image of opaque pixels onto which shapes are painted with smooth edges. Coordinates are pixels
// of the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "page/drawing.h"
#include "page/paint.h"

namespace plimsoll::page {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct Ink {
  Color color;
  double opacity = 1;
  double hatch_period = 0;  // 0: solid; else only lines of this period along both axes
  double hatch_width = 0;
  HatchSlope slope = HatchSlope::kRising;
};

// Coverage of the pixels in a part of the image, 0 to 255, for shapes that consist of several
// parts: pixels where parts overlap are painted only once.
class Mask {
 public:
  Mask(const Box& bounds, std::size_t image_width, std::size_t image_height);

  void add_box(const Box& box);  // boxes that share an edge cover it completely
  // A line with round ends.
  void add_line(Point from, Point to, double width);
  void add_bar(const Box& box);  // a line along an axis; it may cross others

  std::size_t left() const { return left_; }
  std::size_t top() const { return top_; }
  std::size_t right() const { return right_; }
  std::size_t bottom() const { return bottom_; }
  // The end of the run of pixels in row y, from x on, with equal coverage.
  std::size_t end_of_run(std::size_t x, std::size_t y) const;
  std::uint8_t at(std::size_t x, std::size_t y) const {
    return coverage_[(y - top_) * (right_ - left_) + x - left_];
  }

 private:
  template <typename Join>
  void cover_box(const Box& box, const Join& join);
  std::uint8_t& cell(std::size_t x, std::size_t y) {
    return coverage_[(y - top_) * (right_ - left_) + x - left_];
  }

  std::size_t left_ = 0, top_ = 0, right_ = 0, bottom_ = 0;
  std::vector<std::uint8_t> coverage_;
};

class Raster {
 public:
  Raster(std::size_t width, std::size_t height, Color background);

  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }

  void fill(const Box& box, const Ink& ink);
  void fill(const Mask& mask, const Ink& ink);
  void disc(Point center, double radius, const Ink& ink);
  void ring(Point center, double radius, double width, const Ink& ink);

  // Three bytes per pixel, row by row.
  std::span<const std::uint8_t> bytes() const { return pixels_; }

 private:
  // `coverage` returns a pixel's coverage from its distance to the center.
  template <typename Coverage>
  void fill_round(Point center, double reach, const Ink& ink, const Coverage& coverage);
  void store(std::size_t first, std::size_t count, Color color);
  void blend(std::size_t x, std::size_t y, double coverage, const Ink& ink);

  std::size_t width_;
  std::size_t height_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace plimsoll::page
