#include "alerts/series.h"

#include <gtest/gtest.h>

#include "base/growth_rule.h"

namespace plimsoll::alerts {
namespace {

TEST(Series, reports_the_slope_without_the_first_quarter) {
  Series series;
  for (std::int64_t i = 0; i < 22; ++i) series.add(i * 10, i < 5 ? 0 : 1000 + i * 50);
  const auto trend = series.long_trend();
  ASSERT_TRUE(trend.has_value());
  EXPECT_DOUBLE_EQ(trend->per_iteration, 5.0);
  EXPECT_DOUBLE_EQ(trend->confidence, 1.0);
  EXPECT_EQ(trend->first, 1250);
  EXPECT_EQ(trend->last_iteration, 210);
  EXPECT_EQ(trend->values, 17U);
  EXPECT_EQ(series.recent_trend(), std::nullopt);
}

TEST(Series, has_no_trend_with_few_values) {
  Series series;
  EXPECT_TRUE(series.empty());
  for (int i = 0; i < static_cast<int>(base::kFewestGrowthSamples); ++i) {
    EXPECT_EQ(series.long_trend(), std::nullopt);
    series.add(i, i);
  }
  EXPECT_TRUE(series.long_trend().has_value());
}

TEST(Series, covers_all_of_a_long_run) {
  Series series;
  for (std::int64_t i = 0; i < 100'000; ++i) series.add(i, 3 * i);
  const auto all = series.long_trend();
  const auto recent = series.recent_trend();
  ASSERT_TRUE(all && recent);
  EXPECT_DOUBLE_EQ(all->per_iteration, 3.0);
  EXPECT_LT(all->first_iteration, 40'000);
  EXPECT_GT(all->last_iteration, 95'000);
  EXPECT_LE(all->values, 96U);
  EXPECT_EQ(recent->first_iteration, 100'000 - 24);
}

TEST(Series, restarts_with_a_new_run) {
  Series series;
  for (int i = 0; i < 20; ++i) series.add(i, 100);
  series.add(0, 5);
  EXPECT_EQ(series.long_trend(), std::nullopt);
  EXPECT_EQ(series.last(), 5);
}

TEST(Series, reports_the_usual_value) {
  Series series;
  for (int i = 0; i < 5; ++i) series.add(i, 10 + i);
  EXPECT_EQ(series.usual(), std::nullopt);
  series.add(5, 1000);
  EXPECT_EQ(series.usual(), 12);
  EXPECT_EQ(series.jump(), 986);
  series.add(6, 1000);  // stays there
  EXPECT_EQ(series.jump(), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::alerts
