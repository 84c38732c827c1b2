#include "text/block_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::text {
namespace {

using testing::ElementsAre;

TEST(BlockChart, a_column_is_as_high_as_its_total_to_an_eighth_of_a_row) {
  const BlockChart chart{{0, 4, 8, 12, 15, 16}, {}, 2, 8};
  EXPECT_THAT(chart_rows(chart, Color::kOff), ElementsAre("   ▄▇█", " ▄████"));
}

TEST(BlockChart, a_total_that_is_less_than_an_eighth_is_still_shown) {
  const BlockChart chart{{0, 1, 1000, 1001}, {}, 2, 1000};
  EXPECT_THAT(chart_rows(chart, Color::kOff), ElementsAre("    ", " ▁██"));
}

TEST(BlockChart, a_character_has_the_color_of_the_band_that_fills_most_of_it) {
  BlockChart chart{{16, 16, 12, 16}, {}, 2, 8};
  chart.bands = {{1, {8, 5, 3, 4}}, {2, {8, 11, 9, 12}}};
  EXPECT_THAT(chart_rows(chart, Color::kOn),
              ElementsAre("\x1b[38;5;2m██▄█\x1b[0m",
                          "\x1b[38;5;1m██\x1b[0m\x1b[38;5;2m█\x1b[0m\x1b[38;5;1m█\x1b[0m"));
}

TEST(BlockChart, a_band_without_a_character_of_its_own_is_not_visible) {
  BlockChart chart{{16}, {}, 2, 8};
  chart.bands = {{1, {6}}, {2, {3}}, {3, {7}}, {4, {0}}};
  EXPECT_THAT(visible_bands(chart), ElementsAre(true, false, true, false));
}

TEST(BlockChart, spaces_have_no_color_and_without_color_there_are_no_escapes) {
  BlockChart chart{{8, 0, 8}, {}, 1, 8};
  chart.bands = {{1, {8, 0, 8}}};
  EXPECT_THAT(chart_rows(chart, Color::kOn),
              ElementsAre("\x1b[38;5;1m█\x1b[0m \x1b[38;5;1m█\x1b[0m"));
  EXPECT_THAT(chart_rows(chart, Color::kOff), ElementsAre("█ █"));
}

TEST(BlockChart, row_values_are_round_and_large_enough) {
  EXPECT_EQ(round_row_value(45, 8), 6u);
  EXPECT_EQ(round_row_value(48, 8), 6u);
  EXPECT_EQ(round_row_value(49, 8), 7u);
  EXPECT_EQ(round_row_value(77ull << 30, 8), 10ull << 30);
  EXPECT_EQ(round_row_value(0, 8), 1u);
  EXPECT_EQ(round_row_value(3, 8), 1u);
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max() / 2;
  EXPECT_GE(round_row_value(largest, 8), largest / 8);
}

}  // namespace
}  // namespace plimsoll::text
