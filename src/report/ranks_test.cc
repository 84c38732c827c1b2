#include "report/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Report rank(std::int64_t number, std::int64_t peak_bytes, std::int64_t activation_bytes = 0) {
  Report report;
  report.source.path = "run.rank" + std::to_string(number) + ".plim";
  report.source.rank = number;
  DeviceReport cpu;
  cpu.device = -1;
  cpu.device_type = "cpu";
  cpu.events = 10;
  cpu.requested_active.peak_bytes = 100 * kGiB;  // more than the GPU has, and not the question
  DeviceReport gpu = cpu;
  gpu.device = 0;
  gpu.device_type = "cuda";
  gpu.requested_active.peak_bytes = peak_bytes;
  gpu.requested_active.end_bytes = kGiB;
  report.devices = {cpu, gpu};
  report.tables.by_category = {
      {0, "activation", static_cast<std::uint64_t>(activation_bytes), 1, 1, 0.5, {}},
      {0, "parameter", 2U << 30, 1, 1, 0.5, {}}};
  MomentRow moment;
  moment.device = 0;
  moment.name = "peak";
  moment.step = 7;
  moment.layer = "blocks.3";
  report.tables.moments = {moment};
  return report;
}

void fail(Report& report, std::int64_t time_ns) {
  report.devices[1].ooms.push_back({5, time_ns, 2U << 30, 0});
}

TEST(Ranks, of_one_file_or_of_the_same_rank_twice_or_of_no_rank_there_is_nothing_to_compare) {
  EXPECT_FALSE(compare_ranks({}, {}));
  EXPECT_FALSE(compare_ranks({rank(0, kGiB)}, {}));
  EXPECT_FALSE(compare_ranks({rank(1, kGiB), rank(0, kGiB), rank(1, kGiB)}, {}));
  Report none = rank(1, kGiB);
  none.source.rank.reset();
  EXPECT_FALSE(compare_ranks({rank(0, kGiB), none}, {}));
}

TEST(Ranks, that_are_alike_have_no_finding_and_a_row_each_in_order) {
  const auto compared =
      compare_ranks({rank(2, 10 * kGiB), rank(0, 10 * kGiB), rank(1, 10 * kGiB + kGiB / 2)}, {});
  ASSERT_TRUE(compared);
  EXPECT_THAT(compared->findings, IsEmpty());
  EXPECT_EQ(compared->first_to_read, 2U);  // the fullest
  EXPECT_LT(compared->table.find("rank0"), compared->table.find("rank1"));
  EXPECT_LT(compared->table.find("rank1"), compared->table.find("rank2"));
  EXPECT_THAT(compared->table, HasSubstr("+512.0 MiB"));
  EXPECT_THAT(compared->table, HasSubstr("7 in blocks.3"));
  EXPECT_THAT(compared->table, HasSubstr("cuda:0"));
}

TEST(Ranks, the_odd_one_is_named_with_what_sets_it_apart) {
  const auto compared = compare_ranks({rank(0, 10 * kGiB, 4 * kGiB), rank(1, 10 * kGiB, 4 * kGiB),
                                       rank(2, 13 * kGiB, 7 * kGiB), rank(3, 10 * kGiB, 4 * kGiB)},
                                      {});
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  const Finding& finding = compared->findings[0];
  EXPECT_EQ(finding.id, "ranks_differ");
  EXPECT_EQ(finding.title,
            "Rank 2 peaks at 13.0 GiB, 3.0 GiB above the median of 4 ranks (10.0 GiB)");
  EXPECT_THAT(finding.evidence,
              ElementsAre("What sets it apart most is activation: 7.0 GiB at its peak, 4.0 GiB in "
                          "the median of the ranks"));
  EXPECT_EQ(finding.saving_bytes, 3U << 30);
  EXPECT_EQ(compared->first_to_read, 2U);
}

TEST(Ranks, nothing_is_said_of_categories_where_rows_were_left_out) {
  std::vector<Report> reports = {rank(0, 10 * kGiB), rank(1, 10 * kGiB), rank(2, 13 * kGiB)};
  reports[1].tables.by_category[1].key = "[other: 4 groups]";
  const auto compared = compare_ranks(reports, {});
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].evidence, IsEmpty());
}

TEST(Ranks, nothing_is_said_of_the_peak_where_the_tables_speak_of_another_moment) {
  std::vector<Report> reports = {rank(0, 10 * kGiB, 4 * kGiB), rank(1, 10 * kGiB, 4 * kGiB),
                                 rank(2, 13 * kGiB, 7 * kGiB)};
  for (Report& report : reports) report.tables.moments[0].name = "end";
  const auto compared = compare_ranks(reports, {});
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].evidence, IsEmpty());
  EXPECT_EQ(compared->table.find("blocks.3"), std::string::npos);
}

TEST(Ranks, one_with_room_to_spare_is_odd_too) {
  const auto compared =
      compare_ranks({rank(0, 4 * kGiB), rank(1, 10 * kGiB), rank(2, 10 * kGiB)}, {});
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].title, HasSubstr("Rank 0 peaks at 4.0 GiB, 6.0 GiB below"));
  EXPECT_EQ(compared->findings[0].saving_bytes, 0U);
}

TEST(Ranks, who_ran_out_first_comes_first_whoever_is_fuller) {
  std::vector<Report> reports = {rank(0, 10 * kGiB), rank(1, 14 * kGiB), rank(2, 10 * kGiB)};
  fail(reports[0], 3'500'000'000);
  fail(reports[2], 2'000'000'000);
  const auto compared = compare_ranks(reports, {});
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 2U);
  EXPECT_EQ(compared->findings[0].id, "out_of_memory");
  EXPECT_EQ(compared->findings[0].title, "Rank 2 ran out of memory first, of 2 that did");
  EXPECT_THAT(compared->findings[0].evidence,
              ElementsAre("It requested 2.0 GiB", "Rank 0 followed after 1.5 s, by its clock"));
  EXPECT_EQ(compared->findings[1].id, "ranks_differ");
  EXPECT_EQ(compared->first_to_read, 2U);
}

TEST(Ranks, an_empty_recording_is_a_row_too) {
  Report empty;
  empty.source.rank = 0;
  const auto compared = compare_ranks({empty, rank(1, 2 * kGiB)}, {});
  ASSERT_TRUE(compared);
  EXPECT_EQ(compared->findings.size(), 1U);
}

}  // namespace
}  // namespace plimsoll::report
