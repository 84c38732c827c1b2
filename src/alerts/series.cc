#include "alerts/series.h"

#include <algorithm>

#include "base/growth_rule.h"
#include "base/trend.h"

namespace plimsoll::alerts {
namespace {

constexpr std::size_t kMostPoints = 96;
constexpr std::size_t kRecentPoints = 24;
constexpr std::size_t kFewestForUsual = 5;

}  // namespace

void Series::add(std::int64_t iteration, std::int64_t value) {
  constexpr std::int64_t kSane = std::int64_t{1} << 60;  // keeps differences from overflowing
  iteration = std::clamp(iteration, -kSane, kSane);
  if (!recent_.empty() && iteration <= recent_.back().iteration) *this = Series();
  ++added_;
  recent_.push_back({iteration, value});
  if (recent_.size() > kRecentPoints) recent_.pop_front();
  if (++skipped_ < every_) return;
  skipped_ = 0;
  all_.push_back({iteration, value});
  if (all_.size() <= kMostPoints) return;
  for (std::size_t i = 0; 2 * i < all_.size(); ++i) all_[i] = all_[2 * i];
  all_.resize((all_.size() + 1) / 2);
  every_ *= 2;
}

template <typename Points>
Trend Series::trend_of(const Points& points, std::size_t from) {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> at;
  for (std::size_t i = from; i < points.size(); ++i) {
    values.push_back(points[i].value);
    at.push_back(points[i].iteration);
  }
  Trend trend;
  trend.first = values.front();
  trend.last = values.back();
  trend.first_iteration = at.front();
  trend.last_iteration = at.back();
  trend.values = values.size();
  const auto [lowest, highest] = std::ranges::minmax(values);
  trend.lowest = lowest;
  trend.highest = highest;
  const std::size_t half = values.size() / 2;
  const std::int64_t low = std::min(values[half - 1], values[half + 1]);
  const std::int64_t high = std::max(values[half - 1], values[half + 1]);
  trend.middle = std::clamp(values[half], low, high);
  if (trend.last <= trend.first) return trend;  // no growth: skip the expensive rest
  trend.confidence = base::kendall_tau(values);
  trend.per_iteration = base::theil_sen_slope(values, at);
  return trend;
}

std::optional<Trend> Series::long_trend() const {
  if (added_ < base::kFewestGrowthSamples) return std::nullopt;
  return trend_of(all_, all_.size() / 4);
}

std::optional<Trend> Series::recent_trend() const {
  // With fewer values, the newest ones include the first quarter.
  if (added_ * 3 < kRecentPoints * 4) return std::nullopt;
  return trend_of(recent_, 0);
}

std::optional<std::int64_t> Series::usual() const {
  if (recent_.size() < kFewestForUsual + 1) return std::nullopt;
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i + 1 < recent_.size(); ++i) values.push_back(recent_[i].value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::optional<std::int64_t> Series::jump() const {
  const auto usual = this->usual();
  if (!usual) return std::nullopt;
  const std::int64_t before = recent_[recent_.size() - 2].value;
  const std::int64_t jump = last() - std::max(*usual, before);
  return jump > 0 ? std::optional(jump) : std::nullopt;
}

}  // namespace plimsoll::alerts
