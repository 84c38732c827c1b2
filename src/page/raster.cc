#include "page/raster.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::page {
namespace {

constexpr double kLevels = 16;  // of coverage

// The pixels that [low, high) touches, limited to [least, most).
struct Span {
  std::size_t begin;
  std::size_t end;
};

Span touched(double low, double high, std::size_t least, std::size_t most) {
  const auto inside = [&](double value) {
    return static_cast<std::size_t>(
        std::clamp(value, static_cast<double>(least), static_cast<double>(most)));
  };
  return {inside(std::floor(low)), inside(std::ceil(high))};
}

// The part of the pixel that [low, high) covers.
double overlap(double low, double high, std::size_t pixel) {
  const auto begin = static_cast<double>(pixel);
  return std::clamp(std::min(high, begin + 1) - std::max(low, begin), 0.0, 1.0);
}

double distance_to_line(Point p, Point from, Point to) {
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length = dx * dx + dy * dy;
  const double along =
      length == 0 ? 0 : std::clamp(((p.x - from.x) * dx + (p.y - from.y) * dy) / length, 0.0, 1.0);
  return std::hypot(p.x - from.x - along * dx, p.y - from.y - along * dy);
}

double hatch_coverage(std::size_t x, std::size_t y, const Ink& ink) {
  if (ink.hatch_period <= 0) return 1;
  // The distance from the pixel's center to the nearest of the lines x + y = k * period, or of the
  // lines x - y = k * period.
  const bool is_rising = ink.slope == HatchSlope::kRising;
  const double along =
      is_rising ? static_cast<double>(x + y + 1) : static_cast<double>(x) - static_cast<double>(y);
  const double rest = along - ink.hatch_period * std::floor(along / ink.hatch_period);
  const double distance = std::min(rest, ink.hatch_period - rest) / std::sqrt(2.0);
  return std::clamp(ink.hatch_width / 2 - distance + 0.5, 0.0, 1.0);
}

std::uint8_t to_byte(double share) {
  return static_cast<std::uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255));
}

}  // namespace

Mask::Mask(const Box& bounds, std::size_t image_width, std::size_t image_height) {
  const Span columns = touched(bounds.left, bounds.right, 0, image_width);
  const Span rows = touched(bounds.top, bounds.bottom, 0, image_height);
  left_ = columns.begin;
  right_ = std::max(columns.begin, columns.end);
  top_ = rows.begin;
  bottom_ = std::max(rows.begin, rows.end);
  coverage_.resize((right_ - left_) * (bottom_ - top_));
}

template <typename Join>
void Mask::cover_box(const Box& box, const Join& join) {
  const Span columns = touched(box.left, box.right, left_, right_);
  const Span rows = touched(box.top, box.bottom, top_, bottom_);
  for (std::size_t y = rows.begin; y < rows.end; ++y) {
    const double part = overlap(box.top, box.bottom, y);
    for (std::size_t x = columns.begin; x < columns.end; ++x) {
      join(cell(x, y), to_byte(part * overlap(box.left, box.right, x)));
    }
  }
}

void Mask::add_box(const Box& box) {
  cover_box(box, [](std::uint8_t& cell, std::uint8_t more) {
    cell = static_cast<std::uint8_t>(std::min(255, cell + more));
  });
}

void Mask::add_bar(const Box& box) {
  cover_box(box, [](std::uint8_t& cell, std::uint8_t covered) { cell = std::max(cell, covered); });
}

void Mask::add_line(Point from, Point to, double width) {
  const double reach = width / 2 + 1;
  const Span columns =
      touched(std::min(from.x, to.x) - reach, std::max(from.x, to.x) + reach, left_, right_);
  const Span rows =
      touched(std::min(from.y, to.y) - reach, std::max(from.y, to.y) + reach, top_, bottom_);
  for (std::size_t y = rows.begin; y < rows.end; ++y) {
    for (std::size_t x = columns.begin; x < columns.end; ++x) {
      const Point center = {static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      const double covered = width / 2 - distance_to_line(center, from, to) + 0.5;
      if (covered > 0) cell(x, y) = std::max(cell(x, y), to_byte(covered));
    }
  }
}

Raster::Raster(std::size_t width, std::size_t height, Color background)
    : width_(width), height_(height), pixels_(width * height * 3) {
  store(0, width * height, background);
}

void Raster::store(std::size_t first, std::size_t count, Color color) {
  std::uint8_t* pixel = pixels_.data() + first * 3;
  for (std::uint8_t* const end = pixel + count * 3; pixel != end; pixel += 3) {
    pixel[0] = color.red;
    pixel[1] = color.green;
    pixel[2] = color.blue;
  }
}

void Raster::blend(std::size_t x, std::size_t y, double coverage, const Ink& ink) {
  // Few levels of coverage look the same and compress better.
  const double levels = std::round(coverage * hatch_coverage(x, y, ink) * kLevels);
  const double share = levels / kLevels * ink.opacity;
  if (share <= 0) return;
  std::uint8_t* pixel = pixels_.data() + (y * width_ + x) * 3;
  const auto mixed = [&](std::uint8_t below, std::uint8_t above) {
    return static_cast<std::uint8_t>(std::lround(below + (above - below) * std::min(share, 1.0)));
  };
  pixel[0] = mixed(pixel[0], ink.color.red);
  pixel[1] = mixed(pixel[1], ink.color.green);
  pixel[2] = mixed(pixel[2], ink.color.blue);
}

void Raster::fill(const Box& box, const Ink& ink) {
  const Span columns = touched(box.left, box.right, 0, width_);
  const Span rows = touched(box.top, box.bottom, 0, height_);
  for (std::size_t y = rows.begin; y < rows.end; ++y) {
    const double part = overlap(box.top, box.bottom, y);
    for (std::size_t x = columns.begin; x < columns.end; ++x) {
      blend(x, y, part * overlap(box.left, box.right, x), ink);
    }
  }
}

std::size_t Mask::end_of_run(std::size_t x, std::size_t y) const {
  const std::uint8_t* const row = coverage_.data() + (y - top_) * (right_ - left_);
  std::size_t end = x + 1;
  while (end < right_ && row[end - left_] == row[x - left_]) ++end;
  return end;
}

void Raster::fill(const Mask& mask, const Ink& ink) {
  const bool is_plain = ink.opacity >= 1 && ink.hatch_period <= 0;
  for (std::size_t y = mask.top(); y < mask.bottom(); ++y) {
    for (std::size_t x = mask.left(); x < mask.right();) {
      const std::size_t end = mask.end_of_run(x, y);
      const std::uint8_t coverage = mask.at(x, y);
      if (coverage == 255 && is_plain) {
        store(y * width_ + x, end - x, ink.color);
      } else if (coverage != 0) {
        for (std::size_t i = x; i < end; ++i) blend(i, y, coverage / 255.0, ink);
      }
      x = end;
    }
  }
}

template <typename Coverage>
void Raster::fill_round(Point center, double reach, const Ink& ink, const Coverage& coverage) {
  const Span columns = touched(center.x - reach, center.x + reach, 0, width_);
  const Span rows = touched(center.y - reach, center.y + reach, 0, height_);
  for (std::size_t y = rows.begin; y < rows.end; ++y) {
    for (std::size_t x = columns.begin; x < columns.end; ++x) {
      const double distance = std::hypot(static_cast<double>(x) + 0.5 - center.x,
                                         static_cast<double>(y) + 0.5 - center.y);
      blend(x, y, std::clamp(coverage(distance), 0.0, 1.0), ink);
    }
  }
}

void Raster::disc(Point center, double radius, const Ink& ink) {
  fill_round(center, radius + 1, ink, [&](double distance) { return radius - distance + 0.5; });
}

void Raster::ring(Point center, double radius, double width, const Ink& ink) {
  fill_round(center, radius + width / 2 + 1, ink,
             [&](double distance) { return width / 2 - std::fabs(distance - radius) + 0.5; });
}

}  // namespace plimsoll::page
