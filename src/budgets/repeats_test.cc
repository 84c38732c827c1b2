#include "budgets/repeats.h"

#include <gtest/gtest.h>

#include "budgets/check.h"

namespace plimsoll::budgets {
namespace {

using report::Digest;
using report::DigestKey;

// A digest whose CPU peak has these bytes in two layers.
Digest digest_of(std::int64_t head, std::int64_t body) {
  Digest digest;
  digest.points.push_back({.device = "cpu", .name = "peak", .bytes = head + body});
  for (const auto& [layer, bytes] : {std::pair("Net.head", head), std::pair("Net.body", body)}) {
    if (bytes == 0) continue;
    DigestKey key;
    key.device = "cpu";
    key.category = "activation";
    key.layer = layer;
    key.op = "aten::mm";
    digest.rows.push_back({.key = digest.keys.size(), .bytes = bytes, .count = 1});
    digest.keys.push_back(key);
  }
  digest.modules.push_back({.path = "Net"});
  return digest;
}

Runs runs_of(const std::vector<Digest>& digests) {
  Runs runs;
  for (const Digest& digest : digests) runs.each.push_back({.digest = digest});
  runs.digest = fold(digests);
  return runs;
}

CheckedLimit checked(const Digest& baseline, const Runs& runs, Allowance may_grow = {}) {
  BudgetFile file{.path = "b.yaml"};
  file.budgets.push_back({.name = "net", .baseline = "net.json", .may_grow = may_grow});
  const auto limits = check_limits(file, file.budgets[0], runs, &baseline);
  EXPECT_TRUE(limits);
  return limits->front();
}

TEST(Repeats, equal_recordings_have_no_range) {
  const Digest folded = fold({digest_of(5, 5), digest_of(5, 5)});
  EXPECT_EQ(folded.repeats->recordings, 2U);
  EXPECT_TRUE(folded.repeats->ranges.empty());
  EXPECT_FALSE(fold({digest_of(5, 5)}).repeats);
}

TEST(Repeats, fold_keeps_the_median_and_the_range_of_each_key) {
  const Digest folded = fold({digest_of(90, 10), digest_of(50, 10), digest_of(70, 0)});
  EXPECT_EQ(folded.points[0].bytes, 70);
  const PointRange range = range_of(folded, 0);
  EXPECT_EQ(range.least_bytes, 60);
  EXPECT_EQ(range.most_bytes, 100);
  ASSERT_EQ(folded.repeats->ranges.size(), 3U);  // the point and both keys
  EXPECT_EQ(folded.keys.size(), 2U);             // includes the key that the median lacks
  EXPECT_EQ(folded.repeats->ranges[1].least_bytes, 50);
  EXPECT_EQ(folded.repeats->ranges[1].most_bytes, 90);
  EXPECT_EQ(folded.repeats->ranges[2].least_bytes, 0);
}

TEST(Repeats, growth_above_the_maximum_must_exceed_the_spread) {
  std::vector<Digest> five;
  for (const std::int64_t bytes : {100, 110, 104, 102, 108}) five.push_back(digest_of(bytes, 0));
  const Digest baseline = fold(five);
  EXPECT_EQ(checked(baseline, runs_of({digest_of(110, 0)})).verdict, Verdict::kMet);
  EXPECT_EQ(checked(baseline, runs_of({digest_of(120, 0)})).verdict, Verdict::kMet);
  const CheckedLimit limit = checked(baseline, runs_of({digest_of(121, 0)}));
  EXPECT_EQ(limit.verdict, Verdict::kExceeded);
  EXPECT_EQ(limit.bytes, 11);
  EXPECT_EQ(limit.limit_bytes, 10);
  EXPECT_EQ(checked(baseline, runs_of({digest_of(121, 0)}), {.bytes = 1}).verdict, Verdict::kMet);
}

TEST(Repeats, too_few_differing_recordings_give_no_verdict) {
  const Digest baseline = fold({digest_of(100, 0), digest_of(110, 0)});
  const CheckedLimit limit = checked(baseline, runs_of({digest_of(500, 0)}));
  EXPECT_EQ(limit.verdict, Verdict::kMet);
  ASSERT_FALSE(limit.findings.empty());
  EXPECT_EQ(limit.findings[0].id, "baseline_differs");
  EXPECT_NE(limit.findings[0].title.find("too few to judge"), std::string::npos);
}

TEST(Repeats, a_peak_limit_applies_to_the_highest_run) {
  BudgetFile file{.path = "b.yaml"};
  file.budgets.push_back({.name = "net", .limits = {{.bytes = 105}}});
  const Runs runs = runs_of({digest_of(100, 0), digest_of(106, 0), digest_of(99, 0)});
  const auto limits = check_limits(file, file.budgets[0], runs, nullptr);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->front().bytes, 106);
  EXPECT_EQ(limits->front().verdict, Verdict::kExceeded);
}

}  // namespace
}  // namespace plimsoll::budgets
