// What equal runs differ by is not named as the cause of a difference.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "comparison/diff.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;

Digest two_layers(std::int64_t steady, std::int64_t varying) {
  Digest digest;
  digest.points.push_back({.device = "cpu", .name = "peak", .bytes = steady + varying});
  for (const auto& [layer, bytes] :
       {std::pair("Net.steady", steady), std::pair("Net.cache", varying)}) {
    report::DigestKey key;
    key.device = "cpu";
    key.category = "other";
    key.layer = layer;
    digest.rows.push_back({.key = digest.keys.size(),
                           .bytes = bytes,
                           .count = 1,
                           .largest_bytes = static_cast<std::uint64_t>(bytes),
                           .instance_bytes = bytes});
    digest.keys.push_back(key);
    digest.modules.push_back({.path = layer});
  }
  return digest;
}

Digest repeated(std::int64_t least, std::int64_t most) {
  Digest digest = two_layers(10'000, least);
  digest.repeats = report::DigestRepeats{.recordings = 5, .ranges = {}};
  digest.repeats->ranges.push_back(
      {.point = 0, .key = 1, .least_bytes = least, .most_bytes = most});
  return digest;
}

DiffPoint peak(const Digest& before, const Digest& after) {
  return compare(before, after).points[0];
}

TEST(Ranges, what_varies_as_much_between_equal_runs_is_no_cause) {
  const DiffPoint point = peak(repeated(2000, 3000), two_layers(10'500, 4000));
  ASSERT_EQ(point.causes.size(), 1u);
  EXPECT_EQ(point.causes[0].subject, "Net.steady");
  EXPECT_EQ(point.causes[0].difference_bytes, 500);
  EXPECT_EQ(point.everything_else_bytes, 2000);
  EXPECT_EQ(point.difference_bytes, 2500);
  const DiffPoint exchanged = peak(two_layers(10'500, 4000), repeated(2000, 3000));
  ASSERT_EQ(exchanged.causes.size(), 1u);
  EXPECT_EQ(exchanged.everything_else_bytes, -2000);
}

TEST(Ranges, what_exceeds_them_by_more_than_themselves_is_one) {
  const DiffPoint point = peak(repeated(2000, 3000), two_layers(10'000, 4001));
  ASSERT_EQ(point.causes.size(), 1u);
  EXPECT_EQ(point.causes[0].subject, "Net.cache");
  EXPECT_EQ(point.causes[0].difference_bytes, 2001);
}

}  // namespace
}  // namespace plimsoll::comparison
