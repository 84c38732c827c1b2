// One figure over the last minute, and the small picture of it.
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

  // Times do not go back. `step`: of the program; 0: unknown.
  void add(std::int64_t time_ns, std::uint64_t bytes, std::int64_t step = 0);
  // What a step leaves behind, where the program knows its allocations; nullopt: it is not known
  // yet. From then on growth() is that.
  void set_left_behind(std::optional<std::uint64_t> bytes_per_step);
  bool empty() const { return points_.empty(); }

  // `columns` letters from a minute before the newest point to it, a blank where nothing was seen;
  // from the lowest to the highest value, which are the same where they differ by less than 1%.
  std::string sparkline(std::size_t columns) const;

  // "+1.2 GiB in 58 s"; empty before there are two points.
  std::string change() const;

  // "+3.1 MiB per step": what a step leaves behind. Where allocations are unknown, if memory rises
  // from each third of the minute to the next: the lowest value as well as the highest, since a
  // point may lie anywhere in a step. The figure is that of the lowest values. Empty if it does not
  // rise, by 1% at least, or if that is unknown.
  std::string growth() const;

 private:
  struct Point {
    std::int64_t time_ns;
    std::uint64_t bytes;
    std::int64_t step;
  };
  std::deque<Point> points_;
  bool knows_allocations_ = false;
  std::optional<std::uint64_t> left_behind_;
};

}  // namespace plimsoll::top
