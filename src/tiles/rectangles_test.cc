#include "tiles/rectangles.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/trace_maker.h"

namespace plimsoll::tiles {
namespace {

using tests::TraceMaker;

// lifetime, points, base, size
struct Row {
  std::uint32_t lifetime, first, end;
  std::uint64_t base, size;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<Row> rows(const Rectangles& all) {
  std::vector<Row> rows;
  for (const Rectangle& r : all.rectangles) {
    rows.push_back({r.lifetime, r.first_point, r.end_point, r.base_bytes, r.size_bytes});
  }
  return rows;
}

Rectangles by_layer(const model::Trace& trace, std::uint64_t min_bytes,
                    std::size_t budget = kMostRectangles) {
  const auto grouping = model::make_layer_grouping(trace, trace.devices[0], 1);
  std::vector<std::int64_t> points;
  for (std::int64_t point = 0; point < static_cast<std::int64_t>(trace.event_count()); ++point) {
    points.push_back(point);
  }
  const Groups groups = groups_of(*grouping, trace.devices[0]);
  return rectangles(trace, trace.devices[0], groups, points, min_bytes, budget);
}

// point    0    1    2    3    4
// lower         ...B.....C....C         A: 100, B: 20, C: 30 are in "lower", U: 5 in "upper"
//          A....A....A
// upper              U....U....U
model::Trace four_allocations() {
  TraceMaker maker;
  maker.alloc_reported(1, 100, {.layer = "lower"}).alloc_reported(2, 20, {.layer = "lower"});
  maker.alloc_reported(3, 5, {.layer = "upper"}).free_immediately(1, 100);
  maker.alloc_reported(4, 30, {.layer = "lower"});
  return maker.finish();
}

TEST(Rectangles, continue_where_an_allocation_below_is_freed) {
  const auto trace = four_allocations();
  const Rectangles all = by_layer(trace, 1);
  EXPECT_EQ(rows(all), (std::vector<Row>{{0, 0, 3, 0, 100},
                                         {1, 1, 3, 100, 20},
                                         {1, 3, 5, 0, 20},
                                         {3, 4, 5, 20, 30},
                                         {2, 2, 3, 120, 5},
                                         {2, 3, 4, 20, 5},
                                         {2, 4, 5, 50, 5}}));
  EXPECT_FALSE(all.is_minimum_raised);
}

TEST(Rectangles, leave_small_allocations_to_the_remainder_of_their_band) {
  const auto trace = four_allocations();
  const Rectangles all = by_layer(trace, 21);
  EXPECT_EQ(rows(all), (std::vector<Row>{{0, 0, 3, 0, 100}, {3, 4, 5, 0, 30}}));
  const auto rest = [&](std::size_t band) {
    return std::vector<std::uint64_t>(all.rest_of(band).begin(), all.rest_of(band).end());
  };
  EXPECT_EQ(rest(0), (std::vector<std::uint64_t>{0, 20, 20, 20, 20}));
  EXPECT_EQ(rest(1), (std::vector<std::uint64_t>{0, 0, 5, 5, 5}));
}

TEST(Rectangles, raise_the_minimum_until_they_are_within_the_budget) {
  const auto trace = four_allocations();
  const Rectangles all = by_layer(trace, 1, 4);
  EXPECT_EQ(all.rectangles.size(), 4u);  // without the one of 5 bytes
  EXPECT_EQ(all.min_bytes, 8u);
  EXPECT_TRUE(all.is_minimum_raised);
  EXPECT_EQ(by_layer(trace, 1, 0).rectangles.size(), 0u);
}

}  // namespace
}  // namespace plimsoll::tiles
