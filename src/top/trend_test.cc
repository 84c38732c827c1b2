#include "top/trend.h"

#include <gtest/gtest.h>

namespace plimsoll::top {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

Trend trend(std::initializer_list<std::pair<std::int64_t, std::uint64_t>> points) {
  Trend made;
  for (const auto& [seconds, bytes] : points) made.add(seconds * kSecondNs, bytes);
  return made;
}

TEST(Trend, the_sparkline_goes_from_the_lowest_to_the_highest) {
  EXPECT_EQ(trend({{0, 0}, {15, 100}, {30, 300}, {45, 700}, {60, 350}}).sparkline(4), "▁▂▄█");
  EXPECT_EQ(trend({{0, 1000}, {60, 2000}}).sparkline(4), "▁  █");
}

TEST(Trend, small_changes_are_flat) {
  EXPECT_EQ(trend({{0, 1000}, {30, 1001}, {60, 1000}}).sparkline(2), "▅▅");
  EXPECT_EQ(trend({{0, 0}, {60, 0}}).sparkline(2), "▅▅");
}

TEST(Trend, a_minute_is_kept) {
  Trend made = trend({{0, 9'000'000}, {10, 1024}, {65, 3072}});
  EXPECT_EQ(made.change(), "+2.0 KiB in 55 s");
  made.add(90 * kSecondNs, 1024);
  EXPECT_EQ(made.change(), "-2.0 KiB in 25 s");
}

// 31 points in a minute, four steps apart, each at another position in its step.
Trend in_steps(std::uint64_t per_step, std::int64_t first_step = 100) {
  Trend made;
  for (std::int64_t i = 0; i <= 30; ++i) {
    const auto in_step = static_cast<std::uint64_t>(i * 7 % 5) * 1'000'000U;
    const std::uint64_t grown = static_cast<std::uint64_t>(4 * i) * per_step;
    made.add(2 * i * kSecondNs, 10'000'000U + in_step + grown, first_step + 4 * i);
  }
  return made;
}

TEST(Trend, a_change_of_a_run_is_that_from_step_to_step) {
  EXPECT_EQ(in_steps(0).change(), "+0 B in 80 steps");  // wherever in its step the last point is
  EXPECT_EQ(in_steps(1024).change(), "+80.0 KiB in 80 steps");
  Trend few;
  for (std::int64_t i = 1; i < 9; ++i) {
    few.add(i * kSecondNs, static_cast<std::uint64_t>(i % 2) << 20U, i);
    EXPECT_EQ(few.change(), "");
  }
}

TEST(Trend, growth_is_that_of_the_lowest_values) {
  EXPECT_EQ(in_steps(1'048'576).growth(), "+1.0 MiB per step");
  EXPECT_EQ(in_steps(0).growth(), "");
  EXPECT_EQ(in_steps(100).growth(), "");  // less than 1%
}

TEST(Trend, growth_needs_steps_and_a_continuing_rise) {
  EXPECT_EQ(in_steps(1'048'576, -1000).growth(), "");
  EXPECT_EQ(in_steps(1'048'576, -56).growth(), "+1.0 MiB per step");  // the last 16 points
  Trend once;
  for (std::int64_t i = 0; i <= 30; ++i) {
    once.add(2 * i * kSecondNs, i < 12 ? 1000U : 2000U, 100 + 4 * i);
  }
  EXPECT_EQ(once.growth(), "");
  Trend slow;  // with one step every 20 s, no growth can be stated
  for (std::int64_t i = 0; i <= 30; ++i) {
    slow.add(2 * i * kSecondNs, static_cast<std::uint64_t>(1000 * (i + 1)), 1 + i / 10);
  }
  EXPECT_EQ(slow.growth(), "");
}

TEST(Trend, growth_is_what_stays_if_allocations_are_known) {
  Trend made = in_steps(1'048'576);
  made.set_left_behind(std::nullopt);
  EXPECT_EQ(made.growth(), "");
  made.set_left_behind(0);
  EXPECT_EQ(made.growth(), "");
  made.set_left_behind(262'144);
  EXPECT_EQ(made.growth(), "+256.0 KiB per step");
}

TEST(Trend, one_point_is_not_a_change) {
  EXPECT_EQ(trend({{5, 1}}).change(), "");
  EXPECT_EQ(trend({{5, 1}}).sparkline(3), "  ▅");
  EXPECT_EQ(Trend().sparkline(3), "   ");
}

}  // namespace
}  // namespace plimsoll::top
