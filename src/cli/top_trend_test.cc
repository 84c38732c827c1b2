#include "cli/top_trend.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Trend trend(std::initializer_list<std::pair<std::int64_t, std::uint64_t>> points) {
  Trend made;
  for (const auto& [seconds, bytes] : points) made.add(seconds * kSecond, bytes);
  return made;
}

TEST(Trend, the_picture_goes_from_the_lowest_to_the_highest) {
  EXPECT_EQ(trend({{0, 0}, {15, 100}, {30, 300}, {45, 700}, {60, 350}}).sparkline(4), "▁▂▄█");
  EXPECT_EQ(trend({{0, 1000}, {60, 2000}}).sparkline(4), "▁  █");
}

TEST(Trend, what_hardly_changes_is_flat) {
  EXPECT_EQ(trend({{0, 1000}, {30, 1001}, {60, 1000}}).sparkline(2), "▅▅");
  EXPECT_EQ(trend({{0, 0}, {60, 0}}).sparkline(2), "▅▅");
}

TEST(Trend, a_minute_is_kept) {
  Trend made = trend({{0, 9'000'000}, {10, 1024}, {65, 3072}});
  EXPECT_EQ(made.change(), "+2.0 KiB in 55 s");
  made.add(90 * kSecond, 1024);
  EXPECT_EQ(made.change(), "-2.0 KiB in 25 s");
}

TEST(Trend, one_point_is_no_change) {
  EXPECT_EQ(trend({{5, 1}}).change(), "");
  EXPECT_EQ(trend({{5, 1}}).sparkline(3), "  ▅");
  EXPECT_EQ(Trend().sparkline(3), "   ");
}

}  // namespace
}  // namespace plimsoll::cli
