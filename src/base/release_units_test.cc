// Compares release units with a slow count of single cells.
#include "base/release_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace plimsoll::base {
namespace {

struct Gap {
  std::uint64_t begin;
  std::uint64_t end;
  bool is_stranded;
};

std::vector<ReleaseUnit> units_of(std::uint64_t begin, std::uint64_t end, std::uint64_t unit_bytes,
                                  const std::vector<Gap>& gaps) {
  std::vector<ReleaseUnit> found;
  ReleaseUnits units(begin, end, unit_bytes);
  const auto visit = [&](const ReleaseUnit& unit) { found.push_back(unit); };
  for (const Gap& gap : gaps) units.add_gap(gap.begin, gap.end, gap.is_stranded, visit);
  units.finish(visit);
  return found;
}

TEST(ReleaseUnits, splits_gaps_at_pages) {
  const auto found = units_of(100, 155, 20, {{105, 118, true}, {119, 155, false}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].free_bytes, 14u);
  EXPECT_EQ(found[0].stranded_bytes, 13u);
  EXPECT_FALSE(found[0].is_free());
  EXPECT_EQ(found[1].begin, 120u);
  EXPECT_TRUE(found[1].is_free());
  EXPECT_EQ(found[2].end, 155u);  // a shorter page at the end
  EXPECT_TRUE(found[2].is_free());
}

TEST(ReleaseUnits, equal_a_count_of_cells) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    const std::uint64_t begin = 1 + random() % 50;
    const std::uint64_t end = begin + 1 + random() % 60;
    const std::uint64_t unit_bytes = 1 + random() % 25;
    std::vector<Gap> gaps;
    std::map<std::uint64_t, ReleaseUnit> cells;  // by the number of the unit
    for (std::uint64_t at = begin + random() % 5; at < end;) {
      const std::uint64_t stop = std::min<std::uint64_t>(end, at + 1 + random() % 30);
      const bool is_stranded = random() % 2 == 0;
      gaps.push_back({at, stop, is_stranded});
      for (std::uint64_t cell = at; cell < stop; ++cell) {
        ReleaseUnit& unit = cells[(cell - begin) / unit_bytes];
        unit.free_bytes += 1;
        unit.stranded_bytes += is_stranded ? 1 : 0;
      }
      at = stop + 1 + random() % 10;
    }
    std::map<std::uint64_t, ReleaseUnit> found;
    for (const ReleaseUnit& unit : units_of(begin, end, unit_bytes, gaps)) {
      ASSERT_EQ((unit.begin - begin) % unit_bytes, 0u);
      for (std::uint64_t at = unit.begin; at < unit.end; at += unit_bytes) {
        const std::uint64_t size = std::min(unit_bytes, unit.end - at);
        ReleaseUnit& part = found[(at - begin) / unit_bytes];
        ASSERT_EQ(part.free_bytes, 0u);
        part.free_bytes = unit.is_free() ? size : unit.free_bytes;
        part.stranded_bytes =
            !unit.is_free() || unit.stranded_bytes == 0 ? unit.stranded_bytes : size;
      }
    }
    ASSERT_EQ(found.size(), cells.size());
    for (const auto& [number, unit] : cells) {
      EXPECT_EQ(found[number].free_bytes, unit.free_bytes);
      EXPECT_EQ(found[number].stranded_bytes, unit.stranded_bytes);
    }
  }
}

}  // namespace
}  // namespace plimsoll::base
