#include "base/column.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

using testing::ElementsAre;

TEST(Column, keeps_values_through_many_reallocations) {
  Column<std::uint32_t> column;
  for (std::uint32_t i = 0; i < 100'000; ++i) column.push_back(i * 3);
  ASSERT_EQ(column.size(), 100'000u);
  for (std::uint32_t i = 0; i < 100'000; ++i) ASSERT_EQ(column[i], i * 3);
  EXPECT_EQ(column.back(), 99'999u * 3);
  EXPECT_GE(column.memory_bytes(), 400'000u);
}

TEST(Column, appends_resizes_and_shrinks) {
  Column<int> column;
  column.append(std::vector<int>{1, 2, 3});
  column.resize(5, 9);
  EXPECT_THAT(column, ElementsAre(1, 2, 3, 9, 9));
  column.resize(2);
  column.shrink_to_fit();
  EXPECT_THAT(column, ElementsAre(1, 2));
  EXPECT_EQ(column.memory_bytes(), 2 * sizeof(int));
  EXPECT_THAT(column.span(1, 1), ElementsAre(2));
  column.clear();
  EXPECT_TRUE(column.empty());
}

TEST(Column, moving_transfers_the_rows) {
  Column<int> from;
  from.push_back(7);
  const Column<int> to(std::move(from));
  EXPECT_THAT(to, ElementsAre(7));
  Column<int> assigned;
  assigned = [] {
    Column<int> made;
    made.push_back(8);
    return made;
  }();
  EXPECT_THAT(assigned, ElementsAre(8));
}

}  // namespace
}  // namespace plimsoll::base
