#include "tiles/point_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace plimsoll::tiles {
namespace {

std::uint32_t points_before(const std::vector<std::int64_t>& points, std::uint32_t event) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(points, [&](std::int64_t point) { return point < event; }));
}

// With few events each has its own entry in the table; with many, several share one.
TEST(PointRanks, count_the_points_before_an_event) {
  std::mt19937 random(11);
  for (const std::uint32_t events : {1u, 7u, 5'000u, 131'072u, 131'073u, 1'000'000u}) {
    for (const std::size_t count : {1u, 40u, 700u}) {
      std::vector<std::int64_t> points = {-1};
      while (points.size() < count) points.push_back(static_cast<std::int64_t>(random() % events));
      std::ranges::sort(points);
      const PointRanks ranks(points, events);
      for (int i = 0; i < 200; ++i) {
        const auto event = static_cast<std::uint32_t>(random() % events);
        ASSERT_EQ(ranks.of(event), points_before(points, event)) << event << " of " << events;
      }
      for (const std::int64_t point : points) {
        for (const std::int64_t near : {point - 1, point, point + 1}) {
          if (near < 0 || near >= events) continue;
          const auto event = static_cast<std::uint32_t>(near);
          ASSERT_EQ(ranks.of(event), points_before(points, event)) << event << " of " << events;
        }
      }
      ASSERT_EQ(ranks.of(model::kNone), points.size());
    }
  }
}

TEST(PointRanks, work_without_points_or_events) {
  const std::vector<std::int64_t> points = {-1, -1};
  EXPECT_EQ(PointRanks(points, 0).of(model::kNone), 2u);
  EXPECT_EQ(PointRanks({}, 5).of(3), 0u);
}

}  // namespace
}  // namespace plimsoll::tiles
