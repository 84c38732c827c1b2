#include "analysis/growth/queue.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace plimsoll::analysis::growth {
namespace {

constexpr std::size_t kFewestSteps = 12;
constexpr std::int64_t kLeastGrown = 8;  // tensors: fewer may be a prefetch queue filling up
constexpr std::size_t kFewestTaken = 8;  // tensors whose waiting times are compared
constexpr double kInOrder = 0.9;         // share of tensors taken in the order of their birth
constexpr double kLonger = 2;            // steps: how much longer the last ones taken have waited
constexpr double kMostFall = 0.2;        // share of the growth, as in base/growth_rule.h
constexpr double kLeastInHalf = 0.25;
constexpr double kLeastInLastFifth = 0.1;

using Counts = std::vector<std::int64_t>;

Counts live_at_ends(std::span<const Survivor> site, std::size_t steps) {
  Counts counts(steps + 1);
  for (const Survivor& survivor : site) {
    ++counts[survivor.first];
    --counts[survivor.beyond];
  }
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  counts.pop_back();
  return counts;
}

// Whether the count rises from `first` to the end in each half and is still rising.
bool rises(const Counts& counts, std::size_t first) {
  const std::size_t last = counts.size() - 1;
  const auto grown = static_cast<double>(counts[last] - counts[first]);
  const auto between = [&](std::size_t from, std::size_t to) {
    return static_cast<double>(counts[to] - counts[from]);
  };
  const std::size_t middle = first + (last - first) / 2;
  if (between(first, middle) < kLeastInHalf * grown) return false;
  if (between(middle, last) < kLeastInHalf * grown) return false;
  if (between(last - (last - first) / 5, last) < kLeastInLastFifth * grown) return false;
  std::int64_t most = counts[first];
  for (std::size_t step = first; step <= last; ++step) {
    most = std::max(most, counts[step]);
    if (static_cast<double>(most - counts[step]) > kMostFall * grown) return false;
  }
  return true;
}

// Whether tensors are taken in the order of their birth, and later ones have waited longer.
bool is_queue_that_lags(std::span<const Survivor> site, std::size_t steps) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;  // event when it is taken, event when
                                                               // it was made
  for (const Survivor& survivor : site) {
    if (survivor.first > 0 && survivor.beyond < steps)
      taken.emplace_back(survivor.beyond, survivor.first);
  }
  if (taken.size() < kFewestTaken) return false;
  std::ranges::sort(taken);
  std::size_t in_order = 1;
  for (std::size_t i = 1; i < taken.size(); ++i) in_order += taken[i].second >= taken[i - 1].second;
  if (static_cast<double>(in_order) < kInOrder * static_cast<double>(taken.size())) return false;
  const std::size_t third = taken.size() / 3;
  const auto mean_wait = [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += taken[i].first - taken[i].second;
    return sum / static_cast<double>(end - begin);
  };
  const double late = mean_wait(taken.size() - third, taken.size());
  return late >= mean_wait(0, third) + kLonger &&
         late >= static_cast<double>(base::ages_of(steps).of_age);
}

}  // namespace

std::optional<base::Growth> growth_of_queue(std::span<const Survivor> site, std::size_t steps) {
  if (steps < kFewestSteps) return std::nullopt;
  const std::size_t first = base::ages_of(steps).warm_up;
  const Counts counts = live_at_ends(site, steps);
  const std::int64_t grown = counts.back() - counts[first];
  if (grown < kLeastGrown || !rises(counts, first)) return std::nullopt;
  if (!is_queue_that_lags(site, steps)) return std::nullopt;
  std::int64_t live_bytes = 0;
  for (const Survivor& survivor : site) {
    if (survivor.beyond == steps) live_bytes += survivor.size_bytes;
  }
  base::Growth growth;
  growth.compared_steps = steps - 1 - first;
  for (std::size_t step = first + 1; step < steps; ++step) {
    growth.birth_steps += counts[step] > counts[step - 1];
  }
  growth.grown_bytes = live_bytes * grown / counts.back();
  growth.bytes_per_step =
      static_cast<double>(growth.grown_bytes) / static_cast<double>(growth.compared_steps);
  growth.survivors = static_cast<std::uint64_t>(grown);
  growth.is_in_each_step = growth.birth_steps == growth.compared_steps;
  growth.is_certain = true;
  return growth;
}

}  // namespace plimsoll::analysis::growth
