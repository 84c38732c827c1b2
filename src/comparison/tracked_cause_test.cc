#include "comparison/tracked_cause.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::comparison {
namespace {

using report::Digest;

struct Part {
  std::string layer;
  std::int64_t bytes = 0;
  std::string place = "model.py:7 (Net.forward)";
};

Digest at_peak(const std::vector<Part>& parts, const std::string& point = "peak",
               const std::string& phase = {}) {
  Digest digest;
  digest.points.push_back({.device = "cpu", .name = point, .phase = phase});
  for (const Part& part : parts) {
    report::DigestKey key;
    key.device = "cpu";
    key.category = "activation";
    key.layer = part.layer;
    key.function = "Net.forward";
    key.place = part.place;
    digest.rows.push_back({.key = digest.keys.size(),
                           .bytes = part.bytes,
                           .count = 1,
                           .largest_bytes = static_cast<std::uint64_t>(part.bytes),
                           .instance_bytes = part.bytes});
    digest.keys.push_back(std::move(key));
    digest.modules.push_back({.path = part.layer});
    digest.points.back().bytes += part.bytes;
  }
  return digest;
}

TEST(TrackedCause, is_followed_whatever_else_changes) {
  const Digest good = at_peak({{"Net.body", 100}, {"Net.head", 5000}});
  const Digest bad = at_peak({{"Net.body", 1100}, {"Net.head", 5400}});
  const auto cause = TrackedCause::find(good, bad, "");
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->growth_in_bad(), 1000);
  EXPECT_EQ(cause->growth_in(good), 0);
  EXPECT_EQ(cause->growth_in(at_peak({{"Net.body", 400}, {"Net.head", 90000}})), 300);
  EXPECT_EQ(cause->growth_in(at_peak({{"Net.body", 1100}, {"Net.head", 10}})), 1000);
  EXPECT_FALSE(cause->is_nearer_to_bad(300));
  EXPECT_FALSE(cause->is_nearer_to_bad(500));
  EXPECT_TRUE(cause->is_nearer_to_bad(501));
}

TEST(TrackedCause, is_found_under_other_line_numbers) {
  const Digest good = at_peak({{"Net.body", 100}});
  const Digest bad = at_peak({{"Net.body", 900, "model.py:30 (Net.forward)"}});
  const auto cause = TrackedCause::find(good, bad, "");
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->growth_in(at_peak({{"Net.body", 800, "model.py:21 (Net.forward)"}})), 700);
}

TEST(TrackedCause, memory_of_one_side_only) {
  const Digest with = at_peak({{"Net.body", 800}, {"Net.head", 100}});
  const Digest without = at_peak({{"Net.head", 100}});
  const auto added = TrackedCause::find(without, with, "");
  const auto removed = TrackedCause::find(with, without, "");
  ASSERT_TRUE(added);
  ASSERT_TRUE(removed);
  for (const auto& [version, bytes] : {std::pair(&with, 800), std::pair(&without, 0)}) {
    EXPECT_EQ(added->growth_in(*version), bytes);
    EXPECT_EQ(removed->growth_in(*version), bytes - 800);
  }
  EXPECT_EQ(removed->growth_in_bad(), -800);
  EXPECT_TRUE(removed->is_nearer_to_bad(-700));
}

TEST(TrackedCause, can_be_chosen_by_its_kind) {
  const Digest good = at_peak({{"Net.body", 100}, {"Net.head", 5000}});
  const Digest bad = at_peak({{"Net.body", 9000}, {"Net.head", 2000}});
  EXPECT_THAT(cause_ids(good, bad), testing::UnorderedElementsAre("grew", "shrank"));
  const auto shrank = TrackedCause::find(good, bad, "shrank");
  ASSERT_TRUE(shrank);
  EXPECT_EQ(shrank->growth_in_bad(), -3000);
  EXPECT_FALSE(TrackedCause::find(good, bad, "scaled"));
  EXPECT_FALSE(TrackedCause::find(good, good, ""));
}

TEST(TrackedCause, a_version_without_the_point_cannot_be_judged) {
  const Digest good = at_peak({{"Net.body", 100}});
  const Digest bad = at_peak({{"Net.body", 900}});
  EXPECT_FALSE(TrackedCause::find(good, bad, "")->growth_in(at_peak({{"Net.body", 1}}, "end")));
}

}  // namespace
}  // namespace plimsoll::comparison
