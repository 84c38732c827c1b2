#include "base/trend.h"

#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

using Values = std::vector<std::int64_t>;

TEST(Trend, tau_counts_rises_against_falls) {
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 3, 4}), 1.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{4, 3, 2, 1}), -1.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{1, 2, 4, 3}), 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{5, 5, 5}), 0.0);
  EXPECT_DOUBLE_EQ(kendall_tau(Values{5}), 0.0);
}

TEST(Trend, a_single_step_is_not_a_trend) {
  EXPECT_LT(kendall_tau(Values{0, 3, 3, 3, 3, 3}), 0.8);
  EXPECT_LT(kendall_tau(Values{0, 0, 0, 3, 3, 3}), 0.8);
}

TEST(Trend, slope_ignores_an_outlier) {
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 10, 20, 1000, 40}, Values({0, 1, 2, 3, 4})), 10.0);
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 10, 20, 30}, Values({0, 1, 2, 3})), 10.0);
}

TEST(Trend, slope_is_per_step_even_if_steps_are_missing) {
  EXPECT_DOUBLE_EQ(theil_sen_slope(Values{0, 40, 80}, Values({1, 5, 9})), 10.0);
}

}  // namespace
}  // namespace plimsoll::base
