#include "base/growth_rule.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace plimsoll::base {
namespace {

using Series = std::span<const std::int64_t>;

constexpr std::size_t kFewBirthSteps = 3;
constexpr double kLeastShareOfThird = 0.12;
constexpr double kLargestFall = 0.2;
constexpr double kLeastInLaterHalf = 0.25;
constexpr double kLeastInLastFifth = 0.1;
constexpr std::size_t kStepsForLastFifth = 8;
constexpr std::size_t kCertainSteps = 12;

std::int64_t sum(Series values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::size_t steps_with_survivors(Series counts) {
  return static_cast<std::size_t>(
      std::ranges::count_if(counts, [](std::int64_t count) { return count > 0; }));
}

bool are_spread(Series counts) {
  const std::size_t third = counts.size() / 3;
  const std::int64_t first = sum(counts.first(third));
  const std::int64_t middle = sum(counts.subspan(third, counts.size() - 2 * third));
  const std::int64_t last = sum(counts.last(third));
  const double least = kLeastShareOfThird * static_cast<double>(first + middle + last);
  return middle > 0 && first > 0 && last > 0 && static_cast<double>(std::min(first, last)) >= least;
}

bool goes_on(Series aged) {
  const auto grown_since = [&](std::size_t step) {
    return static_cast<double>(aged.back() - aged[step]);
  };
  const double growth = grown_since(0);
  if (growth <= 0) return false;
  std::int64_t most = aged.front();
  for (const std::int64_t now : aged) {
    most = std::max(most, now);
    if (static_cast<double>(most - now) > kLargestFall * growth) return false;
  }
  const std::size_t last = aged.size() - 1;
  if (grown_since(last / 2) < kLeastInLaterHalf * growth) return false;
  if (aged.size() < kStepsForLastFifth) return true;
  return grown_since(last - (last + 2) / 5) >= kLeastInLastFifth * growth;
}

// The number of allocations of age at the end of each judged step. The youngest steps continue the
// curve with their survivors, except for the last one, whose memory the next step may replace; and
// if allocations of age died meanwhile, a window or a queue may be full, so nothing continues it.
std::vector<std::int64_t> continued(const SiteSeries& site, const Ages& ages) {
  const auto& [warm_up, of_age] = ages;
  std::vector<std::int64_t> aged(
      site.aged_counts.begin() + static_cast<std::ptrdiff_t>(warm_up + of_age),
      site.aged_counts.end());
  const std::size_t steps = site.born_counts.size();
  const std::int64_t came_of_age = sum(site.born_counts.subspan(steps - 2 * of_age, of_age));
  if (came_of_age > aged.back() - site.aged_counts[steps - 1 - of_age]) return {};
  for (const std::int64_t count : site.born_counts.subspan(steps - of_age, of_age - 1)) {
    aged.push_back(aged.back() + count);
  }
  return aged;
}

// Survivors of a step are capped at the largest count among the judged steps: earlier steps may
// include permanent allocations of the site, and the last step still has memory that the next one
// will replace.
std::int64_t grown_bytes(Series born_bytes, Series counted) {
  const std::int64_t most = std::ranges::max(counted);
  std::int64_t grown = 0;
  for (const std::int64_t bytes : born_bytes) grown += std::min(bytes, most);
  return grown;
}

}  // namespace

Ages ages_of(std::size_t steps) {
  if (steps < 8) return {.warm_up = 1, .of_age = 1};
  return {.warm_up = (steps + 3) / 4, .of_age = std::max<std::size_t>(2, steps / 8)};
}

std::optional<Growth> growth_of(const SiteSeries& site) {
  const std::size_t steps = site.born_counts.size();
  if (steps < kFewestGrowthSteps) return std::nullopt;
  const auto [warm_up, of_age] = ages_of(steps);
  const std::size_t counted = steps - warm_up - of_age;
  if (site.retired * 2 >= sum(site.born_counts.subspan(1))) return std::nullopt;
  const Series counts = site.born_counts.subspan(warm_up, counted);
  const std::size_t birth_steps = steps_with_survivors(counts);
  if (birth_steps < kFewBirthSteps) return std::nullopt;
  const bool grows = are_spread(counts) && goes_on(site.aged_counts.subspan(warm_up + of_age));
  if (!grows && site.continues) return std::nullopt;
  if (!grows) {
    const std::vector<std::int64_t> aged = continued(site, {warm_up, of_age});
    const Series all = site.born_counts.subspan(warm_up, steps - warm_up - 1);
    if (aged.empty() || !are_spread(all) || !goes_on(aged)) return std::nullopt;
  }
  const Series bytes = site.born_bytes.subspan(warm_up, counted);
  return Growth{.bytes_per_step = static_cast<double>(sum(bytes)) / static_cast<double>(counted),
                .grown_bytes = grown_bytes(site.born_bytes, bytes),
                .survivors = static_cast<std::uint64_t>(sum(counts)),
                .compared_steps = counted,
                .birth_steps = birth_steps,
                .is_in_each_step = birth_steps == counted,
                .is_certain = steps >= kCertainSteps || birth_steps == counted};
}

RateInterval interval_of(const SiteSeries& site) {
  constexpr std::size_t kResamplings = 1000;
  const std::size_t steps = site.born_bytes.size();
  const auto [warm_up, of_age] = ages_of(steps);
  const Series values = site.born_bytes.subspan(warm_up, steps - warm_up - of_age);
  std::mt19937 random(0);
  std::vector<double> means(kResamplings);
  for (double& mean : means) {
    double total = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      total += static_cast<double>(values[random() % values.size()]);
    }
    mean = total / static_cast<double>(values.size());
  }
  std::ranges::sort(means);
  return {.low_bytes_per_step = means[kResamplings / 40],
          .high_bytes_per_step = means[kResamplings - 1 - kResamplings / 40]};
}

}  // namespace plimsoll::base
