// One figure over the iterations of a run of any length: the newest values in full, and the whole
// run increasingly thinned out. Detects a steady rise robustly, by the median slope of all pairs of
// values (Theil-Sen) and by how consistently the pairs rise (Kendall's tau).
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
  std::int64_t middle = 0;  // the value midway: the median of three
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::size_t values = 0;

  std::int64_t grown() const { return last - first; }
  // Whether the rise goes on. False for values that rise more and more slowly, as with caches that
  // fill up. On a straight line, the middle value is at half of the rise.
  bool goes_on() const { return last - middle >= grown() / 5 * 2; }
};

class Series {
 public:
  // Iterations ascend; a lower one starts a new run and discards the old one.
  void add(std::int64_t iteration, std::int64_t value);

  bool empty() const { return recent_.empty(); }
  std::int64_t last() const { return recent_.back().value; }

  // The trend of the whole run without its first quarter, which is warm-up, and of the newest
  // values. nullopt if there are fewer than base::kFewestGrowthSamples.
  std::optional<Trend> long_trend() const;
  std::optional<Trend> recent_trend() const;

  // The median of the newest values except the last; nullopt if there are too few.
  std::optional<std::int64_t> usual() const;
  // How far the last value exceeds both that median and its predecessor; nullopt if it does not.
  std::optional<std::int64_t> jump() const;

 private:
  struct Point {
    std::int64_t iteration = 0;
    std::int64_t value = 0;
  };
  template <typename Points>
  static Trend trend_of(const Points& points, std::size_t from);

  std::vector<Point> all_;
  std::size_t added_ = 0;
  std::size_t every_ = 1;  // all_ has one of this many values
  std::size_t skipped_ = 0;
  std::deque<Point> recent_;
};

}  // namespace plimsoll::alerts
