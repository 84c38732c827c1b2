#include "comparison/held.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/diff.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kResult = 1024;  // bytes

// One line with `count` live results, of which the holder keeps `held`.
Digest results(std::uint64_t count, const std::string& holder, std::uint64_t held,
               const std::string& category = "activation") {
  Digest digest;
  digest.knows_holders = true;
  const auto bytes = static_cast<std::int64_t>(count) * kResult;
  digest.points.push_back({.device = "cpu", .name = "peak", .bytes = bytes});
  report::DigestKey key;
  key.device = "cpu";
  key.category = category;
  key.op = "aten::mul";
  key.function = "train";
  key.text = "kept.append(f(x))";
  key.place = "train.py:9 (train)";
  digest.keys.push_back(key);
  report::DigestRow row;
  row.bytes = bytes;
  row.count = count;
  row.largest_bytes = kResult;
  row.instance_bytes = bytes;
  if (held > 0) {
    FindingHolder one;
    one.path = holder;
    one.type = "list";
    one.length = held;
    one.chain = holder + "[*] → MulBackward0 → saved self";
    one.count = held;
    one.bytes = held * kResult;
    row.holders.push_back({one, "Remove from " + holder + " what is no longer needed."});
  }
  digest.rows.push_back(row);
  return digest;
}

DiffCause cause_between(const Digest& before, const Digest& after) {
  const Diff diff = compare(before, after);
  return diff.points.empty() || diff.points[0].causes.empty() ? DiffCause{}
                                                              : diff.points[0].causes[0];
}

TEST(Held, what_the_second_recording_holds_is_in_the_finding_with_its_edit) {
  const Digest before = results(1, {}, 0);
  const Digest after = results(24, "metrics.history", 23);
  const Diff diff = compare(before, after);
  ASSERT_EQ(diff.findings.size(), 1u);
  const Finding& finding = diff.findings[0];
  EXPECT_THAT(finding.evidence[0], testing::EndsWith(", held by metrics.history now"));
  EXPECT_THAT(finding.evidence,
              Contains("metrics.history, a list of 23, holds 23.0 KiB in 23 allocations: "
                       "metrics.history[*] → MulBackward0 → saved self."));
  ASSERT_EQ(finding.steps.size(), 1u);
  EXPECT_EQ(finding.next_step(), "Remove from metrics.history what is no longer needed.");
  EXPECT_EQ(finding.saving_bytes(), 23u * kResult);
  ASSERT_EQ(finding.holders.size(), 1u);
  EXPECT_EQ(diff.points[0].causes[0].holders[0].path, "metrics.history");
  EXPECT_THAT(diff.points[0].causes[0].holders_before, IsEmpty());
}

TEST(Held, one_edit_ends_all_that_its_holder_holds) {
  Digest before = results(1, {}, 0);
  Digest after = results(24, "history", 23);
  for (Digest* const digest : {&before, &after}) {
    report::DigestKey other = digest->keys[0];
    other.function = "forward";
    other.text = "y = g(x)";
    digest->keys.push_back(other);
    digest->rows.push_back(digest->rows[0]);
    digest->rows[1].key = 1;
    digest->points[0].bytes *= 2;
  }
  const Finding finding = compare(before, after).findings.at(0);
  EXPECT_EQ(finding.saving_bytes(), 46u * kResult);
  EXPECT_EQ(finding.holders.at(0).count, 46u);
}

TEST(Held, what_changed_is_stated_with_both_holders) {
  EXPECT_EQ(cause_between(results(10, "cache", 10), results(24, "history", 24)).held,
            "held by history now, was held by cache");
  EXPECT_EQ(cause_between(results(24, "cache", 24), results(1, {}, 0)).held, "was held by cache");
}

TEST(Held, the_same_holder_is_no_change_also_on_another_line) {
  const DiffCause cause = cause_between(results(10, "kept in train (train.py:9)", 10),
                                        results(24, "kept in train (train.py:12)", 24));
  EXPECT_EQ(cause.held, "");
  EXPECT_EQ(cause.edit, "");
  EXPECT_EQ(cause.holders.size(), 1u);
  // It held less than half before: it is not new.
  EXPECT_EQ(cause_between(results(10, "kept", 2), results(24, "kept", 24)).held, "held by kept");
}

TEST(Held, less_than_half_of_the_memory_names_nothing) {
  EXPECT_EQ(cause_between(results(1, {}, 0), results(24, "history", 11)).held, "");
}

TEST(Held, memory_that_is_to_be_kept_names_nothing) {
  EXPECT_EQ(cause_between(results(1, {}, 0, "parameter"), results(24, "net", 24, "parameter")).held,
            "");
}

TEST(Held, a_recording_without_holders_says_nothing_about_them) {
  Digest unknown = results(1, {}, 0);
  unknown.knows_holders = false;
  EXPECT_EQ(cause_between(unknown, results(24, "history", 24)).held, "held by history");
  EXPECT_EQ(cause_between(results(24, "history", 24), unknown).held, "");
  const Diff diff = compare(unknown, [] {
    Digest after = results(24, {}, 0);
    after.knows_holders = false;
    return after;
  }());
  for (const std::string& line : diff.findings.at(0).evidence) {
    EXPECT_THAT(line, Not(HasSubstr("held")));
  }
  EXPECT_THAT(diff.findings[0].holders, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::comparison
