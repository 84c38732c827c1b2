// One figure over the last minute, with its sparkline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace plimsoll::top {

class Trend {
 public:
  static constexpr std::int64_t kSpanNs = 60'000'000'000;

  // Times must not decrease. `step` is the program's step; 0: unknown.
  void add(std::int64_t time_ns, std::uint64_t bytes, std::int64_t step = 0);
  // Sets the bytes that a step leaves behind, if the program records its allocations; nullopt while
  // unknown. After the first call, growth() is based on it.
  void set_left_behind(std::optional<std::uint64_t> bytes_per_step);
  bool empty() const { return points_.empty(); }
  bool has_steps() const { return !empty() && points_.back().step > 0; }

  // `columns` characters for the minute up to the newest point, blank where there are no samples;
  // scaled from the lowest to the highest value, or flat if they differ by less than 1%.
  std::string sparkline(std::size_t columns) const;

  // "+1.2 GiB in 58 s"; empty with fewer than two points. A point may be anywhere in a step, so if
  // steps are known, this compares the lowest values of the first and the last third of the minute:
  // "+1.2 GiB in 80 steps".
  std::string change() const;

  // "+3.1 MiB per step": the bytes that a step leaves behind. If allocations are unknown, both the
  // lowest and the highest value must rise from each third of the minute to the next, and the
  // figure is for the lowest values. Empty if memory does not rise by at least 1%, or if that is
  // unknown.
  std::string growth() const;

 private:
  struct Point {
    std::int64_t time_ns;
    std::uint64_t bytes;
    std::int64_t step;
  };
  struct Range {
    Point low, high;
  };
  struct Thirds {
    Range first, middle, last;
  };
  std::optional<Thirds> thirds() const;  // of the points with steps; nullopt: there are too few

  std::deque<Point> points_;
  bool knows_allocations_ = false;
  std::optional<std::uint64_t> left_behind_;
};

}  // namespace plimsoll::top
