// A figure over the iterations of a run, however long it is: the newest values as they came, and
// all of it ever more thinly. Tells whether it keeps rising, robustly: the median of the slopes of
// all pairs (Theil-Sen), and how surely the pairs rise (Kendall's tau).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace plimsoll::alerts {

struct Trend {
  double per_iteration = 0;  // the slope
  double confidence = 0;     // Kendall's tau: -1 to 1
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t first_iteration = 0;
  std::int64_t last_iteration = 0;
  std::int64_t middle = 0;  // the value half-way: the median of three
  std::size_t values = 0;

  std::int64_t grown() const { return last - first; }
  // Not what rises ever more slowly, as caches do that fill up. A straight line has a half of it.
  bool goes_on() const { return last - middle >= grown() / 5 * 2; }
};

class Series {
 public:
  static constexpr std::size_t kFewestForATrend = 10;

  // Iterations ascend; one that does not begins a new run and forgets the old one.
  void add(std::int64_t iteration, std::int64_t value);

  bool empty() const { return recent_.empty(); }
  std::int64_t last() const { return recent_.back().value; }

  // Of the whole run without its first quarter, which is warm-up, and of the newest values. Nothing
  // where there are too few of them.
  std::optional<Trend> long_trend() const;
  std::optional<Trend> recent_trend() const;

  // The median of the newest values but the last; nothing where there are too few.
  std::optional<std::int64_t> usual() const;
  // How far the last value is above that and above the one before it; nothing if it is not.
  std::optional<std::int64_t> jump() const;

 private:
  struct Point {
    std::int64_t iteration = 0;
    std::int64_t value = 0;
  };
  template <typename Points>
  static std::optional<Trend> trend_of(const Points& points, std::size_t from);

  std::vector<Point> all_;
  std::size_t added_ = 0;
  std::size_t every_ = 1;  // of so many values all_ keeps one
  std::size_t skipped_ = 0;
  std::deque<Point> recent_;
};

}  // namespace plimsoll::alerts
