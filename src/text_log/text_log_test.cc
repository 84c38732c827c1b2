#include "text_log/text_log.h"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_sample.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll::text_log {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using tests::made_cpu;
using tests::synthetic_sample;

constexpr const char* kExpected =
    R"(=== Iteration 100 | 2026-11-20T16:40:13.125Z | loss 0.014553 ===
Device: cuda:0
Allocated: 8073.4 MB
Reserved: 10130.0 MB
Fragmentation: 20.3%
Peak: 9000.0 MB
Device used: 12000.0 MB of 16000.0 MB
Tensors: 400 in 8000.0 MB
Categories: activation 4000.0 MB in 100, parameter 2000.0 MB in 120, gradient 1500.0 MB in 120, optimizer_state 500.0 MB in 60
Dtypes: float32 6000.0 MB in 300, bfloat16 2000.0 MB in 100
Layers: unet.down.0 3000.0 MB in 100, unet.down.1 2000.0 MB in 100, (rest) 3000.0 MB in 200
Large tensors: 2 in 1536.0 MB, each above 100.0 MB
  1024.0 MB | [64, 64, 256, 256] | float32 | activation | unet.down.0 | -
CPU tensors: 3 in 30.000 MB
CPU categories: input 20.000 MB in 2, other 10.000 MB in 1
Host: process 3000.0 MB, workers 400.0 MB in 4, used 8000.0 MB of 32000.0 MB, cpu 150.0%

)";

TEST(TextLog, begins_with_comments_that_explain_a_dash) {
  const std::string header = text_log_header(0);
  EXPECT_THAT(header, HasSubstr("\n# -: unknown; a tensor that was freed before a sample has no "));
  EXPECT_THAT(header, EndsWith("\n# Summarize it with: plimsoll analyze FILE\n\n"));
}

TEST(TextLog, writes_a_snapshot_that_can_be_grepped) {
  const std::string snapshot =
      text_log_snapshot(synthetic_sample(), {.top_layers = 2, .top_large_tensors = 1});
  EXPECT_EQ(snapshot, kExpected);
  EXPECT_LT(text_log_snapshot(synthetic_sample(), {}).size(), 1100U);
}

TEST(TextLog, of_a_large_model_names_the_largest_parts_and_sums_the_rest) {
  MemorySample sample = synthetic_sample();
  DeviceMemory& device = sample.devices[1];
  for (const std::string part : {"/parameters", "/gradients", "/optimizer_state"}) {
    for (std::uint64_t i = 0; i < 32; ++i) {
      device.components.push_back({"encoder." + std::to_string(i) + part, tests::kMb, 4});
      device.layers.push_back({"unet.up." + std::to_string(i) + part, i * 1024, 1});
    }
  }
  device.categories.push_back({"unknown", 0, 0});
  const std::string text = text_log_snapshot(sample, {.top_layers = 2});
  EXPECT_THAT(text, HasSubstr("\nComponents: encoder.0/parameters 1.000 MB in 4, "
                              "encoder.1/parameters 1.000 MB in 4, (rest) 94.000 MB in 376\n"));
  EXPECT_THAT(text, Not(HasSubstr("unknown")));
  device.at_peak = device.categories;
  device.bar = tests::made_bar();
  for (int i = 0; i < 40; ++i) {
    const std::string layer =
        "model.decoder.layers." + std::to_string(i) + ".self_attention.output";
    device.large_tensors.push_back(
        {layer + ".weight", "parameter", "bfloat16", "[16384, 16384]", layer, 512 * tests::kMb});
    device.layers.push_back({layer, tests::kMb, 4});
    device.unused.push_back({layer, tests::kMb, 4});
  }
  for (const std::size_t named : {1UL, 10UL, 1000UL}) {
    const std::string fitted =
        text_log_snapshot(sample, {.top_layers = named, .top_large_tensors = named});
    EXPECT_LE(fitted.size(), 1024U) << fitted;
    EXPECT_THAT(fitted, HasSubstr("\nLayers: unet.down.0 3000.0 MB in 100, "));
    EXPECT_THAT(fitted, HasSubstr("\n  1024.0 MB | [64, 64, 256, 256] | "));
  }
}

TEST(TextLog, writes_the_batch_and_what_was_live_at_the_peak) {
  MemorySample sample = synthetic_sample();
  sample.batch_size = 32;
  sample.devices[1].at_peak = {{"parameter", 2000 * tests::kMb, 0},
                               {"gradient", 1500 * tests::kMb, 0},
                               {"(rest)", 5500 * tests::kMb, 0}};
  const std::string text = text_log_snapshot(sample, {});
  EXPECT_THAT(text, HasSubstr("| loss 0.014553 | batch 32 ===\n"));
  EXPECT_THAT(text, HasSubstr("Peak: 9000.0 MB\nAt peak: parameter 2000.0 MB, gradient 1500.0 MB, "
                              "(rest) 5500.0 MB\n"));
  sample.ran_out = true;
  EXPECT_THAT(text_log_snapshot(sample, {}), HasSubstr("| batch 32 | out of memory ===\n"));
}

TEST(TextLog, calls_cpu_tensors_allocated_if_there_is_nothing_else) {
  MemorySample sample;
  sample.iteration = 3;
  sample.devices = {made_cpu()};
  const std::string snapshot = text_log_snapshot(sample, {});
  EXPECT_THAT(snapshot, StartsWith("=== Iteration 3 | 1970-01-01T00:00:00.000Z ===\n"
                                   "Device: cpu\nAllocated: 30.000 MB\nTensors: 3 in "));
  EXPECT_THAT(snapshot, Not(HasSubstr("Reserved")));
  EXPECT_THAT(snapshot, Not(HasSubstr("Fragmentation")));
  EXPECT_THAT(snapshot, Not(HasSubstr("Host")));
}

TEST(TextLog, reports_the_users_of_the_device) {
  MemorySample sample = synthetic_sample();
  sample.devices[1].bar = tests::made_bar();
  EXPECT_THAT(
      text_log_snapshot(sample, {}),
      HasSubstr("\nDevice bar: tensors 8000.0 MB, cached 2000.0 MB, context 500.0 MB, outside "
                "600.0 MB, process 77 400.0 MB, driver 550.0 MB, unexplained -50.000 MB\n"));
}

TEST(TextLog, omits_unknown_values) {
  MemorySample sample;
  sample.devices.emplace_back().name = "cuda:0";
  EXPECT_EQ(text_log_snapshot(sample, {}),
            "=== Iteration 0 | 1970-01-01T00:00:00.000Z ===\nDevice: cuda:0\n\n");
}

class TextLogTest : public ::testing::Test {
 protected:
  tests::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/text_log_test";
};

TEST_F(TextLogTest, has_a_unique_name) {
  TextLog one;
  TextLog two;
  ASSERT_TRUE(one.create(folder_, {}).ok());
  ASSERT_TRUE(two.create(folder_, {}).ok());
  EXPECT_THAT(one.path(), MatchesRegex(".*/text_log_test/profiles/tensor_profile_"
                                       "[0-9]{8}_[0-9]{6}\\.log"));
  EXPECT_NE(one.path(), two.path());
  ASSERT_TRUE(one.write(synthetic_sample()).ok());
  std::ifstream file(one.path());
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, StartsWith("# Plimsoll tensor profile, format 1. MB are "));
  EXPECT_THAT(text, HasSubstr("\n\n=== Iteration 100 | "));
}

TEST_F(TextLogTest, reports_in_one_sentence_that_it_cannot_be_created) {
  std::ofstream(folder_) << "a file";
  TextLog log;
  const Status status = log.create(folder_, {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("text_log_test/profiles: Not a directory"));
  EXPECT_TRUE(log.write(synthetic_sample()).ok());
}

TEST(TextLog, leaves_no_file_without_a_sample) {
  const tests::TemporaryFolder folder;
  TextLog log;
  ASSERT_TRUE(log.create(folder.path(), {}));
  const std::string path = log.path();
  EXPECT_TRUE(std::filesystem::exists(path));
  log.close();
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(log.create(folder.path(), {}));
  ASSERT_TRUE(log.write(synthetic_sample()));
  log.close();
  EXPECT_TRUE(std::filesystem::exists(log.path()));
}

}  // namespace
}  // namespace plimsoll::text_log
