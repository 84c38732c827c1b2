#include "page/ticks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::page {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks) out.push_back(tick.label);
  return out;
}

constexpr double kMib = 1 << 20;

TEST(ByteTicks, are_multiples_of_powers_of_two) {
  EXPECT_THAT(labels(byte_ticks(45.1 * kMib)),
              ElementsAre("8 MiB", "16 MiB", "24 MiB", "32 MiB", "40 MiB"));
  EXPECT_THAT(labels(byte_ticks(1300 * kMib)),
              ElementsAre("256 MiB", "512 MiB", "768 MiB", "1 GiB", "1.25 GiB"));
  EXPECT_THAT(labels(byte_ticks(700)), ElementsAre("128 B", "256 B", "384 B", "512 B", "640 B"));
}

TEST(ByteTicks, there_are_three_to_five_of_them) {
  for (int power = 0; power < 215; ++power) {
    const double highest = 3 * std::pow(1.37, power);  // up to 5e29
    const auto ticks = byte_ticks(highest);
    EXPECT_GE(ticks.size(), 3u) << highest;
    EXPECT_LE(ticks.size(), 5u) << highest;
    EXPECT_LE(ticks.back().value, highest);
  }
}

TEST(ByteTicks, an_empty_axis_has_no_ticks) {
  EXPECT_TRUE(byte_ticks(0).empty());
  EXPECT_TRUE(byte_ticks(-5).empty());
  EXPECT_EQ(labels(byte_ticks(1)), std::vector<std::string>{"1 B"});
}

TEST(CountTicks, are_round_and_at_least_one_apart) {
  EXPECT_THAT(labels(count_ticks(0, 79'836, 5)), ElementsAre("0", "20,000", "40,000", "60,000"));
  EXPECT_THAT(labels(count_ticks(0, 3, 8)), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(labels(count_ticks(7, 7, 8)), ElementsAre("7"));
  EXPECT_THAT(labels(count_ticks(990, 1010, 5)),
              ElementsAre("990", "995", "1,000", "1,005", "1,010"));
  EXPECT_TRUE(count_ticks(0, 100, 0).empty());
}

TEST(CountTicks, there_are_never_too_many) {
  for (int power = 0; power < 78; ++power) {
    const double last = std::pow(1.7, power) - 1;  // from 0 to 6e17
    for (const std::size_t most : {1u, 2u, 6u}) {
      EXPECT_LE(count_ticks(0, last, most).size(), most) << last;
    }
  }
}

TEST(TimeTicks, have_one_unit) {
  EXPECT_THAT(labels(time_ticks(0, 10.4e9, 6)), ElementsAre("0 s", "5 s", "10 s"));
  EXPECT_THAT(labels(time_ticks(0, 1.2e9, 6)), ElementsAre("0 s", "0.5 s", "1 s"));
  EXPECT_THAT(labels(time_ticks(0, 3e6, 4)), ElementsAre("0 ms", "1 ms", "2 ms", "3 ms"));
  EXPECT_THAT(labels(time_ticks(0, 400e3, 5)),
              ElementsAre("0 \xC2\xB5s", "100 \xC2\xB5s", "200 \xC2\xB5s", "300 \xC2\xB5s",
                          "400 \xC2\xB5s"));
  EXPECT_THAT(labels(time_ticks(0, 0, 5)), ElementsAre("0 ns"));
}

}  // namespace
}  // namespace plimsoll::page
