#include "comparison/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::comparison {
namespace {

using report::DeviceReport;
using report::Finding;
using report::PointInTime;
using report::Report;
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
  cpu.requested_active.peak_bytes = 100 * kGiB;  // more than the GPU has, but irrelevant
  DeviceReport gpu = cpu;
  gpu.device = 0;
  gpu.device_type = "cuda";
  gpu.requested_active.peak_bytes = peak_bytes;
  gpu.requested_active.end_bytes = kGiB;
  report.devices = {cpu, gpu};
  report.tables.by_category = {
      {0, "activation", static_cast<std::uint64_t>(activation_bytes), 1, 1, 0.5, {}},
      {0, "parameter", 2U << 30, 1, 1, 0.5, {}}};
  PointInTime point;
  point.device = 0;
  point.name = "peak";
  point.step = 7;
  point.layer = "blocks.3";
  report.tables.points = {point};
  return report;
}

void fail(Report& report, std::int64_t time_ns) {
  report.devices[1].ooms.push_back({5, time_ns, 2U << 30, 0});
}

TEST(Ranks, need_at_least_two_reports_of_different_ranks) {
  const std::vector<Report> no_reports;
  const std::vector<Report> one = {rank(0, kGiB)};
  const std::vector<Report> twice = {rank(1, kGiB), rank(0, kGiB), rank(1, kGiB)};
  EXPECT_FALSE(compare_ranks(no_reports));
  EXPECT_FALSE(compare_ranks(one));
  EXPECT_FALSE(compare_ranks(twice));
  Report none = rank(1, kGiB);
  none.source.rank.reset();
  const std::vector<Report> with_none = {rank(0, kGiB), none};
  EXPECT_FALSE(compare_ranks(with_none));
}

TEST(Ranks, that_are_alike_have_no_finding_and_one_row_each_in_order) {
  const std::vector<Report> reports = {rank(2, 10 * kGiB), rank(0, 10 * kGiB),
                                       rank(1, 10 * kGiB + kGiB / 2)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  EXPECT_THAT(compared->findings, IsEmpty());
  EXPECT_EQ(compared->first_to_read, 2U);  // the rank with the highest peak
  ASSERT_EQ(compared->ranks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(compared->ranks[i].number, static_cast<std::int64_t>(i));
    EXPECT_EQ(compared->ranks[i].device->device_type, "cuda");
    EXPECT_EQ(compared->ranks[i].peak->layer, "blocks.3");
    EXPECT_FALSE(compared->ranks[i].differs);
  }
  EXPECT_EQ(compared->ranks[1].difference_bytes, kGiB / 2);
  EXPECT_EQ(compared->ranks[1].report, 2U);
  EXPECT_EQ(compared->reference, "the median of 3 ranks");
}

TEST(Ranks, the_outlier_is_named_with_the_category_that_differs) {
  const std::vector<Report> reports = {rank(0, 10 * kGiB, 4 * kGiB), rank(1, 10 * kGiB, 4 * kGiB),
                                       rank(2, 13 * kGiB, 7 * kGiB), rank(3, 10 * kGiB, 4 * kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  const Finding& finding = compared->findings[0];
  EXPECT_EQ(finding.id, "ranks_differ");
  EXPECT_EQ(finding.title,
            "Rank 2 peaks at 13.0 GiB, 3.0 GiB above the median of 4 ranks (10.0 GiB)");
  EXPECT_THAT(
      finding.evidence,
      ElementsAre("The largest difference is in activation: 7.0 GiB at its peak, 4.0 GiB in "
                  "the median of the ranks."));
  EXPECT_EQ(finding.saving_bytes(), 3U << 30);
  EXPECT_EQ(compared->first_to_read, 2U);
}

TEST(Ranks, categories_are_not_compared_if_rows_were_omitted) {
  std::vector<Report> reports = {rank(0, 10 * kGiB), rank(1, 10 * kGiB), rank(2, 13 * kGiB)};
  reports[1].tables.by_category[1].key = "[other: 4 groups]";
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].evidence, IsEmpty());
}

TEST(Ranks, peaks_are_not_explained_by_tables_of_another_point_in_time) {
  std::vector<Report> reports = {rank(0, 10 * kGiB, 4 * kGiB), rank(1, 10 * kGiB, 4 * kGiB),
                                 rank(2, 13 * kGiB, 7 * kGiB)};
  for (Report& report : reports) report.tables.points[0].name = "end";
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].evidence, IsEmpty());
  EXPECT_EQ(compared->ranks[2].peak, nullptr);
}

TEST(Ranks, a_rank_below_the_median_is_an_outlier_too) {
  const std::vector<Report> reports = {rank(0, 4 * kGiB), rank(1, 10 * kGiB), rank(2, 10 * kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_THAT(compared->findings[0].title, HasSubstr("Rank 0 peaks at 4.0 GiB, 6.0 GiB below"));
  EXPECT_EQ(compared->findings[0].saving_bytes(), 0U);
}

TEST(Ranks, two_ranks_are_compared_with_each_other) {
  const std::vector<Report> reports = {rank(0, 20 * kGiB, 9 * kGiB), rank(1, 10 * kGiB, 4 * kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1U);
  EXPECT_EQ(compared->findings[0].title,
            "Rank 0 peaks at 20.0 GiB, 10.0 GiB above rank 1 (10.0 GiB)");
  EXPECT_THAT(compared->findings[0].evidence,
              ElementsAre("The largest difference is in activation: 9.0 GiB at its peak, 4.0 GiB "
                          "at the other rank's."));
  EXPECT_EQ(compared->findings[0].saving_bytes(), std::uint64_t{10} << 30);
}

TEST(Ranks, the_median_of_an_even_number_is_the_mean_of_the_middle_two) {
  const std::vector<Report> reports = {rank(0, 10 * kGiB), rank(1, 12 * kGiB), rank(2, 10 * kGiB),
                                       rank(3, 20 * kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  EXPECT_EQ(compared->ranks[3].difference_bytes, 9 * kGiB);
}

TEST(Ranks, the_first_to_run_out_of_memory_comes_before_higher_peaks) {
  std::vector<Report> reports = {rank(0, 10 * kGiB), rank(1, 14 * kGiB), rank(2, 10 * kGiB)};
  fail(reports[0], 3'500'000'000);
  fail(reports[2], 2'000'000'000);
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 2U);
  EXPECT_EQ(compared->findings[0].id, "out_of_memory");
  EXPECT_EQ(compared->findings[0].title, "Rank 2 ran out of memory first, of 2 that did");
  EXPECT_THAT(compared->findings[0].evidence,
              ElementsAre("It requested 2.0 GiB.", "Rank 0 followed after 1.5 s, by its clock."));
  EXPECT_EQ(compared->findings[1].id, "ranks_differ");
  EXPECT_EQ(compared->first_to_read, 2U);
}

TEST(Ranks, an_empty_recording_is_a_row_too) {
  Report empty;
  empty.source.rank = 0;
  const std::vector<Report> reports = {empty, rank(1, 2 * kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  EXPECT_EQ(compared->findings.size(), 1U);
}

// A report whose main device is cuda:`own`, with `bytes` also on cuda:0.
Report on_device(std::int64_t number, std::int32_t own, std::int64_t bytes) {
  Report report = rank(number, 4 * kGiB);
  report.devices[1].device = own;
  report.tables.points[0].device = own;
  for (auto& row : report.tables.by_category) row.device = own;
  if (bytes > 0) {
    DeviceReport other = report.devices[1];
    other.device = 0;
    other.requested_active.peak_bytes = bytes;
    report.devices.push_back(other);
    report.tables.by_line = {{0, "train.py:9 (load)", 1U << 30, 1, 1, 0.5, {}}};
  }
  return report;
}

TEST(Ranks, memory_on_the_device_of_another_rank_is_reported_with_its_line) {
  const std::vector<Report> reports = {on_device(0, 0, 0), on_device(1, 1, kGiB)};
  const auto compared = compare_ranks(reports);
  ASSERT_TRUE(compared);
  ASSERT_EQ(compared->findings.size(), 1u);
  const Finding& finding = compared->findings[0];
  EXPECT_EQ(finding.id, "device_of_another_rank");
  EXPECT_EQ(finding.title, "Rank 1 uses cuda:0, the device of rank 0: 1.0 GiB");
  EXPECT_THAT(finding.evidence, ElementsAre(HasSubstr("train.py:9 (load)")));
  EXPECT_EQ(finding.saving_bytes(), static_cast<std::uint64_t>(kGiB));
}

TEST(Ranks, ranks_that_share_a_device_or_run_on_other_machines_are_not_judged) {
  const std::vector<Report> shared = {on_device(0, 0, 0), on_device(1, 0, 0)};
  EXPECT_THAT(compare_ranks(shared)->findings, IsEmpty());
  std::vector<Report> apart = {on_device(0, 0, 0), on_device(1, 1, kGiB)};
  apart[1].source.host = "other-machine";
  EXPECT_THAT(compare_ranks(apart)->findings, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::comparison
