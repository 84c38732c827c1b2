#include "fleet/partial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace plimsoll::fleet {
namespace {

using report::DeviceReport;
using report::DigestKey;
using report::DigestRow;
using report::Report;

Report report_of(std::int64_t peak_bytes) {
  Report report;
  report.source.path = "rank3.plim";
  report.source.rank = 3;
  report.source.world_size = 8;
  DeviceReport gpu;
  gpu.device = 1;
  gpu.device_type = "cuda";
  gpu.events = 10;
  gpu.requested_active.peak_bytes = peak_bytes;
  gpu.reserved.peak_bytes = peak_bytes + 5;
  gpu.bars = {{.point = "fullest", .used_bytes = 70, .total_bytes = 80}};
  report.devices = {gpu};
  report.digest.points = {{.device = "cuda:1", .name = "peak", .bytes = peak_bytes, .step = 4}};
  return report;
}

TEST(Partial, has_the_figures_of_the_fullest_device) {
  Report report = report_of(60);
  report.devices[0].ooms = {{5, 900, 8, 0}, {9, 700, 4, 0}};
  const RankRow rank = partial_of(report).rank;
  EXPECT_EQ(rank.device, "cuda:1");
  EXPECT_EQ(rank.peak_bytes, 60);
  EXPECT_EQ(rank.reserved_bytes, 65);
  EXPECT_EQ(rank.world_size, 8);
  EXPECT_EQ(rank.capacity_bytes, 80u);
  EXPECT_EQ(rank.used_bytes, 70u);
  EXPECT_EQ(rank.peak_step, 4u);
  EXPECT_EQ(rank.ooms, 2u);
  EXPECT_EQ(rank.oom_time_ns, 700);
  EXPECT_EQ(rank.oom_request_bytes, 4u);
}

TEST(Partial, of_a_long_run_keeps_the_highest_of_several_steps) {
  Report report = report_of(60);
  for (std::uint64_t i = 0; i < 4'100; ++i) {
    report::StepRow step;
    step.device = 1;
    step.step = i + 1;
    step.event_count = 1;
    step.peak_bytes = i == 2'718 ? 60 : 10 + i % 3;
    step.end_time_ns = static_cast<std::int64_t>(i) * 1'000;
    step.categories = {{.category = "gradient", .end_bytes = 0, .peak_bytes = 7}};
    report.tables.steps.push_back(step);
  }
  const std::vector<StepRow> steps = partial_of(report).steps;
  EXPECT_LE(steps.size(), kMostSteps);
  std::uint64_t covered = 0;
  std::uint64_t most = 0;
  for (const StepRow& step : steps) {
    covered += step.steps;
    most = std::max(most, step.peak_bytes);
    EXPECT_EQ(step.peak_of<base::Category::kGradient>(), 7u);
    EXPECT_EQ(step.peak_of<base::Category::kParameter>(), 0u);
    if (step.peak_bytes == 60) {
      EXPECT_EQ(step.step, 2'719u);
      EXPECT_EQ(step.duration_ns, 1'000);
    }
  }
  EXPECT_EQ(covered, 4'100u);
  EXPECT_EQ(most, 60u);
}

TEST(Partial, rows_of_a_point_sum_to_its_bytes_though_sites_have_no_offsets) {
  Report report = report_of(60);
  const DigestKey key{"cuda:1",  "activation", "forward", "blocks.*", "aten::mm",
                      "forward", "x @ w",      0,         ""};
  DigestKey later = key;
  later.offset = 7;
  DigestKey other = key;
  other.layer = "head";
  report.digest.keys = {key, later, other};
  report.digest.rows = {
      DigestRow{.point = 0, .key = 0, .bytes = 10, .count = 1, .largest_bytes = 10},
      DigestRow{.point = 0, .key = 1, .bytes = 20, .count = 2, .largest_bytes = 15, .shape = "[3]"},
      DigestRow{.point = 0, .key = 2, .bytes = 30, .count = 1, .largest_bytes = 30}};
  const Partial partial = partial_of(report);
  ASSERT_EQ(partial.peaks.size(), 2u);
  EXPECT_EQ(partial.sites.size(), 2u);
  EXPECT_EQ(partial.peaks[0].bytes, 30);
  EXPECT_EQ(partial.peaks[0].count, 3u);
  EXPECT_EQ(partial.peaks[0].shape, "[3]");
  EXPECT_EQ(partial.peaks[0].layers, 2u);
  EXPECT_EQ(partial.peaks[1].bytes, 30);
}

// The hash is in files: it must not change.
TEST(Partial, hash_of_a_site_is_stable) {
  Report report = report_of(60);
  report.digest.keys = {DigestKey{"cpu", "activation", "", "", "", "", "", 0, ""}};
  report.digest.rows = {DigestRow{.point = 0, .key = 0, .bytes = 1, .count = 1}};
  EXPECT_EQ(partial_of(report).sites.at(0).site, 0x72A935D5743409EFu);
}

TEST(Partial, ranks_with_the_same_layers_have_the_same_role) {
  Report first = report_of(60);
  first.digest.modules = {{.path = "blocks.*", .type = "Block", .instances = 4, .indices = "0-3"}};
  Report stage = first;
  stage.digest.modules[0].indices = "4-7";
  Report shard = first;
  shard.digest.modules[0].parameter_bytes = 5;
  EXPECT_EQ(partial_of(first).rank.role, partial_of(shard).rank.role);
  EXPECT_NE(partial_of(first).rank.role, partial_of(stage).rank.role);
  EXPECT_EQ(partial_of(report_of(60)).rank.role, 0u);
}

}  // namespace
}  // namespace plimsoll::fleet
