#include "analysis/growth/trend.h"

#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::analysis::growth {
namespace {

using Values = std::vector<std::int64_t>;

std::vector<Boundary> steps(std::initializer_list<std::uint32_t> numbers) {
  std::vector<Boundary> at;
  for (const std::uint32_t number : numbers) at.push_back(Boundary{number * 10, number});
  return at;
}

TEST(Trend, tau_counts_rises_against_falls) {
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 3, 4}), 1.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{4, 3, 2, 1}), -1.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 4, 3}), 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{5, 5, 5}), 0.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{5}), 0.0);
}

TEST(Trend, appearing_once_and_staying_is_no_trend) {
  EXPECT_LT(kendall_tau(Values{0, 3, 3, 3, 3, 3}), 0.8);
  EXPECT_LT(kendall_tau(Values{0, 0, 0, 3, 3, 3}), 0.8);
}

TEST(Trend, slope_ignores_an_outlier) {
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 10, 20, 1000, 40}, steps({0, 1, 2, 3, 4})), 10.0);
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 10, 20, 30}, steps({0, 1, 2, 3})), 10.0);
}

TEST(Trend, slope_is_per_step_where_steps_were_left_out) {
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 40, 80}, steps({1, 5, 9})), 10.0);
}

}  // namespace
}  // namespace plimsoll::analysis::growth
