#include "tensorboard/layout.h"

#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorboard/scalars.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll::tensorboard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The tags of a sample that a chart shows, in the order of the sample.
std::vector<std::string> shown_in(const Chart& chart, const MemorySample& sample,
                                  const std::string& section = "Memory") {
  std::vector<std::string> shown;
  for (const Scalar& scalar : scalars_of(sample, {.section = section})) {
    for (const std::string& tag : chart.tags) {
      if (std::regex_search(scalar.tag, std::regex("^(?:" + tag + ")"))) {
        shown.push_back(scalar.tag);
      }
    }
  }
  return shown;
}

TEST(Layout, begins_with_the_five_categories_and_with_the_allocators_figures) {
  const MemorySample sample = tests::synthetic_sample();
  const auto groups = layout_of(sample, "Memory");
  EXPECT_EQ(groups.front().title, "Memory");
  ASSERT_EQ(groups.front().charts.size(), 2U);
  EXPECT_THAT(
      shown_in(groups.front().charts[0], sample),
      ElementsAre("Memory/Tensor_Category/parameters_MB", "Memory/Tensor_Category/gradients_MB",
                  "Memory/Tensor_Category/activations_MB", "Memory/Tensor_Category/buffers_MB",
                  "Memory/Tensor_Category/other_MB"));
  EXPECT_THAT(shown_in(groups.front().charts[1], sample),
              ElementsAre("Memory/vram_allocated", "Memory/vram_reserved", "Memory/vram_peak"));
}

TEST(Layout, shows_the_cpu_where_there_is_nothing_else) {
  MemorySample sample;
  sample.devices = {tests::made_cpu()};
  sample.devices[0].peak_bytes = 45 * tests::kMb;
  const auto groups = layout_of(sample, "Memory");
  EXPECT_THAT(shown_in(groups.front().charts[1], sample),
              ElementsAre("Memory/cpu_allocated", "Memory/cpu_peak"));
}

TEST(Layout, has_charts_of_each_of_several_devices) {
  MemorySample sample = tests::synthetic_sample();
  sample.devices.push_back(sample.devices[1]);
  sample.devices[2].name = "cuda:1";
  const auto groups = layout_of(sample, "Memory");
  ASSERT_EQ(groups[1].charts.size(), 4U);
  EXPECT_EQ(groups[1].charts[3].title, "cuda:1: allocated, reserved and peak, GB");
  EXPECT_THAT(shown_in(groups[1].charts[3], sample),
              ElementsAre("Memory/cuda:1/vram_allocated", "Memory/cuda:1/vram_reserved",
                          "Memory/cuda:1/vram_peak"));
  EXPECT_NE(groups, layout_of(tests::synthetic_sample(), "Memory"));
}

MemorySample full_sample() {
  MemorySample sample = tests::synthetic_sample();
  sample.devices[1].at_peak = {{"parameter", 2000 * tests::kMb, 0}};
  return sample;
}

TEST(Layout, every_chart_shows_tags_of_a_full_sample) {
  const MemorySample sample = full_sample();
  for (const ChartGroup& group : layout_of(sample, "Memory")) {
    for (const Chart& chart : group.charts) {
      EXPECT_THAT(shown_in(chart, sample), Not(IsEmpty())) << chart.title;
    }
  }
}

TEST(Layout, takes_a_section_literally) {
  const MemorySample sample = full_sample();
  const std::string section = "a.b (c) [1]$";
  for (const ChartGroup& group : layout_of(sample, section)) {
    for (const Chart& chart : group.charts) {
      EXPECT_THAT(shown_in(chart, sample, section), Not(IsEmpty())) << chart.title;
      EXPECT_THAT(shown_in(chart, sample, "aXb (c) [1]$"), IsEmpty()) << chart.title;
    }
  }
}

}  // namespace
}  // namespace plimsoll::tensorboard
