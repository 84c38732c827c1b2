#include "base/growth_rule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

// An allocation of a site: the step in which it is made, its size, and the number of step ends at
// which it is live.
struct Made {
  std::size_t step;
  std::int64_t bytes;
  std::size_t lasts;
};
constexpr std::size_t kForEver = 1'000'000;

// The series, computed by checking each allocation at the end of each step.
struct Judged {
  std::vector<std::int64_t> counts, bytes, aged;
  std::int64_t retired = 0;

  Judged(std::size_t steps, const std::vector<Made>& all)
      : counts(steps), bytes(steps), aged(steps) {
    const auto [warm_up, of_age] = ages_of(steps);
    for (const Made& made : all) {
      const auto is_live = [&](std::size_t end) {
        return end >= made.step && end - made.step < made.lasts;
      };
      if (is_live(steps - 1)) counts[made.step] += 1, bytes[made.step] += made.bytes;
      if (made.step == 0 && is_live(warm_up) && !is_live(steps - 1)) ++retired;
      for (std::size_t end = 0; end < steps; ++end) {
        if (made.step > 0 && is_live(end) && end - made.step >= of_age) ++aged[end];
      }
    }
  }
  SiteSeries series() const { return {counts, bytes, aged, retired}; }
};

std::optional<Growth> judge(std::size_t steps, const std::vector<Made>& all) {
  return growth_of(Judged(steps, all).series());
}

using Random = std::mt19937;
using Make = std::function<std::vector<Made>(std::size_t steps, Random& random)>;

std::size_t below(Random& random, std::size_t limit) { return random() % limit; }

// The number of runs, out of 100, in which the site is judged to grow.
int flagged(std::size_t steps, const Make& make) {
  int count = 0;
  for (unsigned run = 0; run < 100; ++run) {
    Random random(run);
    count += judge(steps, make(steps, random)) ? 1 : 0;
  }
  return count;
}

std::vector<Made> each_step(std::size_t steps, const std::function<Made(std::size_t)>& make) {
  std::vector<Made> all;
  for (std::size_t step = 0; step < steps; ++step) all.push_back(make(step));
  return all;
}

std::vector<Made> batches_of_varying_size(std::size_t steps, Random& random) {
  return each_step(steps, [&](std::size_t step) {
    return Made{step, 1 + std::int64_t(below(random, 1000)), 1};
  });
}
std::vector<Made> inputs_that_get_longer(std::size_t steps, Random& /*random*/) {
  return each_step(steps,
                   [](std::size_t step) { return Made{step, 100 * (1 + std::int64_t(step)), 1}; });
}
// A queue of up to 8 entries that the program fills and empties randomly.
std::vector<Made> fluctuating_queue(std::size_t steps, Random& random) {
  std::vector<Made> all;
  std::vector<std::size_t> held;
  for (std::size_t step = 0; step < steps; ++step) {
    for (int turn = 0; turn < 3; ++turn) {
      if (held.size() < 8 && below(random, 2) == 0) {
        held.push_back(all.size());
        all.push_back({step, 100, kForEver});
      } else if (!held.empty()) {
        all[held.front()].lasts = step - all[held.front()].step;
        held.erase(held.begin());
      }
    }
  }
  return all;
}
std::vector<Made> window_of(std::size_t length, std::size_t steps) {
  return each_step(steps, [&](std::size_t step) { return Made{step, 100, length}; });
}

TEST(GrowthRule, clean_sites_do_not_grow) {
  for (const std::size_t steps : {8u, 12u, 20u, 50u, 200u}) {
    SCOPED_TRACE(steps);
    EXPECT_EQ(flagged(steps, batches_of_varying_size), 0);
    EXPECT_EQ(flagged(steps, inputs_that_get_longer), 0);
    EXPECT_LE(flagged(steps, fluctuating_queue), steps < 12 ? 6 : 2);
  }
}

// Stored exceptions, each with a few tensors, in random steps.
std::vector<Made> random_bursts(std::size_t steps, Random& random) {
  std::vector<Made> all;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t count = below(random, 4) == 0 ? 1 + below(random, 4) : 0;
    all.insert(all.end(), count, Made{step, 100, kForEver});
    all.push_back({step, 100, 1});
  }
  return all;
}
// A cache of 16 entries, whose keys are random.
std::vector<Made> cache_of_random_keys(std::size_t steps, Random& random) {
  std::vector<Made> all;
  std::vector<bool> is_known(16);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t key = below(random, is_known.size());
    if (!is_known[key]) all.push_back({step, 100, kForEver});
    is_known[key] = true;
  }
  return all;
}

TEST(GrowthRule, random_bursts_grow) {
  EXPECT_GE(flagged(60, random_bursts), 80);
  EXPECT_GE(flagged(128, random_bursts), 95);
  EXPECT_LE(flagged(128, cache_of_random_keys), 1);
}

TEST(GrowthRule, a_full_window_does_not_grow) {
  EXPECT_EQ(judge(50, window_of(16, 50)), std::nullopt);
  EXPECT_EQ(judge(200, window_of(16, 200)), std::nullopt);
  EXPECT_EQ(judge(200, window_of(128, 200)), std::nullopt);
}

TEST(GrowthRule, a_queue_filled_in_the_first_step_does_not_grow) {
  // 20 in the first step; then each step adds one and removes the oldest.
  std::vector<Made> all;
  for (std::size_t i = 0; i < 20; ++i) all.push_back({0, 100, i + 1});
  for (std::size_t step = 1; step < 18; ++step) all.push_back({step, 100, 20});
  EXPECT_EQ(judge(18, all), std::nullopt);
}

TEST(GrowthRule, leaks_grow) {
  for (const std::size_t steps : {6u, 8u, 12u, 20u, 50u, 128u}) {
    SCOPED_TRACE(steps);
    const auto found = judge(steps, window_of(kForEver, steps));
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(found->bytes_per_step, 100);
    EXPECT_EQ(found->grown_bytes, std::int64_t(steps) * 100);
    EXPECT_TRUE(found->is_certain);
  }
}

TEST(GrowthRule, a_leak_at_epoch_ends_grows_and_its_rate_has_an_interval) {
  std::vector<Made> all = inputs_that_get_longer(120, *std::make_unique<Random>(0));
  for (std::size_t step = 10; step < 120; step += 10) all.push_back({step, 1000, kForEver});
  const Judged judged(120, all);
  const auto found = growth_of(judged.series());
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->bytes_per_step, 100, 15);
  const RateInterval interval = interval_of(judged.series());
  EXPECT_LT(interval.low_bytes_per_step, 80);
  EXPECT_GT(interval.high_bytes_per_step, 120);
}

TEST(GrowthRule, one_time_allocations_are_not_part_of_the_growth) {
  std::vector<Made> all = window_of(kForEver, 20);
  all.push_back({0, 1'000'000, kForEver});
  all.push_back({19, 1'000'000, kForEver});
  const auto found = judge(20, all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->grown_bytes, 20 * 100);
}

TEST(GrowthRule, few_steps_with_gaps_are_not_certain) {
  std::vector<Made> all = window_of(kForEver, 10);
  std::erase_if(all, [](const Made& made) { return made.step == 5; });
  const auto found = judge(10, all);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_certain);
}

TEST(GrowthRule, five_steps_are_too_few) { EXPECT_FALSE(judge(5, window_of(kForEver, 5))); }

}  // namespace
}  // namespace plimsoll::base
