#include "tensorboard/scalars.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_sample.h"

namespace plimsoll::tensorboard {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;
using tests::made_cpu;
using tests::made_gpu;
using tests::synthetic_sample;

using Values = std::map<std::string, double>;

Values values_of(const MemorySample& sample, const ScalarOptions& options = {}) {
  Values values;
  for (const Scalar& scalar : scalars_of(sample, options)) {
    EXPECT_FALSE(values.contains(scalar.tag)) << scalar.tag;
    values[scalar.tag] = scalar.value;
  }
  return values;
}

TEST(Scalars, use_the_familiar_tags) {
  EXPECT_THAT(values_of(synthetic_sample()),
              IsSupersetOf(Values{{"Memory/Tensor_Category/parameters_MB", 2000},
                                  {"Memory/Tensor_Category/gradients_MB", 1500},
                                  {"Memory/Tensor_Category/activations_MB", 4000},
                                  {"Memory/Tensor_Category/buffers_MB", 0},
                                  {"Memory/Tensor_Category/other_MB", 500},
                                  {"Memory/Tensor_Other/optimizer_state_MB", 500},
                                  {"Memory/Tensor_Other/temporary_MB", 0},
                                  {"Memory/Tensor_Other/workspace_MB", 0},
                                  {"Memory/Tensor_DType/float32_MB", 6000},
                                  {"Memory/Tensor_DType/bfloat16_MB", 2000},
                                  {"Memory/Large_Tensors/count", 2},
                                  {"Memory/Large_Tensors/total_MB", 1536},
                                  {"Memory/Tensor_Count/total", 400},
                                  {"Memory/vram_reserved", 10130 / 1024.0},
                                  {"Memory/vram_peak", 9000 / 1024.0},
                                  {"Memory/vram_used", 12000 / 1024.0},
                                  {"Memory/vram_percent", 75},
                                  {"Memory/ram_process", 3000 / 1024.0},
                                  {"Memory/ram_workers", 400 / 1024.0},
                                  {"Memory/ram_used", 8000 / 1024.0},
                                  {"Memory/ram_percent", 25},
                                  {"Memory/cpu_percent", 150},
                                  {"Memory/cpu_allocated", 30 / 1024.0},
                                  {"Memory/loss", 0.014553}}));
  EXPECT_NEAR(values_of(synthetic_sample())["Memory/vram_allocated"], 8073.4 / 1024, 1e-7);
  EXPECT_NEAR(values_of(synthetic_sample())["Memory/fragmentation_percent"], 20.3, 0.01);
}

TEST(Scalars, have_each_component_with_its_gradient_and_state) {
  MemorySample sample = synthetic_sample();
  sample.devices[1].components = {{"xyz/optimizer_state", 20 * tests::kMb, 2},
                                  {"xyz/parameters", 10 * tests::kMb, 1},
                                  {"f_rest/parameters", 5 * tests::kMb, 1}};
  EXPECT_THAT(values_of(sample),
              IsSupersetOf(Values{{"Memory/Tensor_Component/xyz_MB", 30},
                                  {"Memory/Tensor_Component/xyz/optimizer_state_MB", 20},
                                  {"Memory/Tensor_Component/xyz/parameters_MB", 10},
                                  {"Memory/Tensor_Component/f_rest/parameters_MB", 5}}));
  EXPECT_FALSE(values_of(sample).contains("Memory/Tensor_Component/f_rest_MB"));
}

TEST(Scalars, state_what_the_peak_was_made_of) {
  MemorySample sample = synthetic_sample();
  EXPECT_FALSE(values_of(sample).contains("Memory/Peak_Category/activations_MB"));
  sample.devices[1].at_peak = {{"activation", 5000 * tests::kMb, 0},
                               {"parameter", 3000 * tests::kMb, 0},
                               {"temporary", 1000 * tests::kMb, 0}};
  sample.devices[1].peak_tensors = {{"", "activation", "", "", "", 700 * tests::kMb}};
  EXPECT_THAT(values_of(sample), IsSupersetOf(Values{{"Memory/Peak_Category/activations_MB", 5000},
                                                     {"Memory/Peak_Category/parameters_MB", 3000},
                                                     {"Memory/Peak_Category/gradients_MB", 0},
                                                     {"Memory/Peak_Category/other_MB", 1000},
                                                     {"Memory/Peak_Tensors/largest_MB", 700}}));
}

TEST(Scalars, sum_layers_by_component_and_keep_the_largest) {
  ScalarOptions options;
  EXPECT_THAT(values_of(synthetic_sample(), options),
              IsSupersetOf(Values{{"Memory/Tensor_Layer/unet.down_MB", 5000},
                                  {"Memory/Tensor_Layer/unet.up_MB", 1000}}));
  options.top_layers = 1;
  EXPECT_THAT(values_of(synthetic_sample(), options),
              Not(Contains(Pair("Memory/Tensor_Layer/unet.up_MB", 1000))));
}

TEST(Scalars, include_the_growth_of_an_iteration) {
  MemorySample sample = synthetic_sample();
  EXPECT_FALSE(values_of(sample).contains("Memory/vram_growth"));
  sample.devices[1].growth_bytes = tests::kMb;
  EXPECT_EQ(values_of(sample)["Memory/vram_growth"], 1 / 1024.0);
}

TEST(Scalars, are_in_the_requested_section) {
  for (const Scalar& scalar : scalars_of(synthetic_sample(), {"TensorProfiling", 3})) {
    EXPECT_THAT(scalar.tag, StartsWith("TensorProfiling/"));
  }
}

TEST(Scalars, omit_unknown_values) {
  MemorySample sample;
  sample.devices.emplace_back().name = "cuda:0";
  EXPECT_TRUE(scalars_of(sample, {}).empty());
  sample.devices.front().reserved_bytes = 0;
  EXPECT_EQ(values_of(sample), (Values{{"Memory/vram_reserved", 0}}));
}

TEST(Scalars, describe_the_cpu_if_there_is_nothing_else) {
  MemorySample sample;
  sample.devices = {made_cpu()};
  EXPECT_FALSE(values_of(sample).contains("Memory/cpu_peak"));
  sample.devices[0].peak_bytes = 45 * tests::kMb;
  const Values values = values_of(sample);
  EXPECT_THAT(values, IsSupersetOf(Values{{"Memory/Tensor_Category/other_MB", 30},
                                          {"Memory/Tensor_Other/input_MB", 20},
                                          {"Memory/Tensor_Count/total", 3},
                                          {"Memory/cpu_peak", 45 / 1024.0},
                                          {"Memory/cpu_allocated", 30 / 1024.0}}));
  for (const auto& [tag, value] : values) {
    EXPECT_EQ(tag.find("vram"), std::string::npos) << tag;
    EXPECT_EQ(tag.find("/cpu/"), std::string::npos) << tag;
  }
}

TEST(ScalarSeries, leave_out_the_cpu_while_it_is_0_where_a_gpu_is_used) {
  MemorySample sample = synthetic_sample();
  sample.devices[0].categories = {{"input", 0, 0}};
  sample.devices[0].dtypes.clear();
  sample.devices[0].live_bytes = sample.devices[0].live_count = 0;
  sample.devices[0].peak_bytes = 0;
  ScalarSeries series({});
  const auto tags_of_cpu = [&] {
    std::vector<std::string> tags;
    for (const Scalar& scalar : series.next(sample)) {
      if (scalar.tag.find("/cpu") != std::string::npos) tags.push_back(scalar.tag);
    }
    return tags;
  };
  EXPECT_THAT(tags_of_cpu(), ElementsAre("Memory/cpu_percent"));
  sample.devices[0].categories = {{"input", 2 * tests::kMb, 1}};
  const std::vector<std::string> with_input = {"Memory/cpu_percent",
                                               "Memory/cpu/Tensor_Category/other_MB",
                                               "Memory/cpu/Tensor_Other/input_MB"};
  EXPECT_EQ(tags_of_cpu(), with_input);
  sample.devices[0].categories = {{"input", 0, 0}};  // the curve drops to 0
  EXPECT_EQ(tags_of_cpu(), with_input);
}

TEST(ScalarSeries, have_the_figures_of_the_cpu_where_there_is_nothing_else) {
  MemorySample sample;
  sample.devices = {made_cpu()};
  sample.devices[0].categories = {{"input", 0, 0}};
  ScalarSeries series({});
  const auto count = [&] { return scalars_of(sample, {}).size() - series.next(sample).size(); };
  EXPECT_EQ(count(), 7);  // the parts of other
  sample.devices[0].categories = {{"input", 2 * tests::kMb, 1}};
  EXPECT_EQ(count(), 6);
  sample.devices[0].categories = {{"input", 0, 0}};  // the curve drops to 0
  EXPECT_EQ(count(), 6);
}

TEST(Scalars, begin_with_the_tags_that_most_users_need) {
  std::vector<std::string> tags;
  for (const Scalar& scalar : scalars_of(synthetic_sample(), {})) tags.push_back(scalar.tag);
  tags.resize(12);
  EXPECT_THAT(
      tags,
      ElementsAre("Memory/Tensor_Category/parameters_MB", "Memory/Tensor_Category/gradients_MB",
                  "Memory/Tensor_Category/activations_MB", "Memory/Tensor_Category/buffers_MB",
                  "Memory/Tensor_Category/other_MB", "Memory/Tensor_DType/bfloat16_MB",
                  "Memory/Tensor_DType/float32_MB", "Memory/Large_Tensors/count",
                  "Memory/Large_Tensors/total_MB", "Memory/vram_allocated", "Memory/vram_reserved",
                  "Memory/fragmentation_percent"));
}

TEST(Scalars, report_several_devices_together_and_each) {
  MemorySample sample;
  sample.devices = {made_cpu(), made_gpu(), made_gpu()};
  sample.devices[2].name = "cuda:1";
  sample.devices[2].used_bytes = 4000 * tests::kMb;
  EXPECT_THAT(values_of(sample), IsSupersetOf(Values{{"Memory/vram_reserved", 20260 / 1024.0},
                                                     {"Memory/vram_percent", 50},
                                                     {"Memory/Tensor_DType/float32_MB", 12000},
                                                     {"Memory/Tensor_Layer/unet.up_MB", 2000},
                                                     {"Memory/cuda:0/vram_percent", 75},
                                                     {"Memory/cuda:1/vram_percent", 25},
                                                     {"Memory/cuda:1/Tensor_Count/total", 400},
                                                     {"Memory/cpu/Tensor_Other/input_MB", 20}}));
  EXPECT_FALSE(values_of(sample).contains("Memory/vram_peak"));
  sample.devices[2].reserved_bytes.reset();
  EXPECT_FALSE(values_of(sample).contains("Memory/vram_reserved"));
}

TEST(Scalars, report_non_pytorch_memory_of_each_device) {
  MemorySample sample = synthetic_sample();
  sample.devices[1].bar = tests::made_bar();
  EXPECT_EQ(values_of(sample)["Memory/vram_non_pytorch"], 2000 / 1024.0);
  sample.devices.push_back(sample.devices[1]);
  sample.devices[2].name = "cuda:1";
  const Values values = values_of(sample);
  EXPECT_FALSE(values.contains("Memory/vram_non_pytorch"));
  EXPECT_EQ(values.at("Memory/cuda:1/vram_non_pytorch"), 2000 / 1024.0);
  sample.devices.pop_back();
  sample.devices[1].bar->parts = {{.kind = "not_reported", .size_bytes = 7}};
  EXPECT_FALSE(values_of(sample).contains("Memory/vram_non_pytorch"));
}

TEST(Scalars, have_tags_that_are_text) {
  MemorySample sample = synthetic_sample();
  sample.devices[1].layers = {{"net\n\xFF", tests::kMb, 1}};
  EXPECT_EQ(values_of(sample)["Memory/Tensor_Layer/net \xEF\xBF\xBD_MB"], 1);
}

}  // namespace
}  // namespace plimsoll::tensorboard
