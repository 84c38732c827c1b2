#include "logs/deepspeed_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/reader.h"

namespace plimsoll::logs {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::uint64_t gib(double count) { return static_cast<std::uint64_t>(count * kGib + 0.5); }

TEST(DeepSpeedLog, has_a_sample_for_each_call_of_see_memory_usage) {
  std::vector<MemorySample> samples;
  const auto contents = read_log_bytes(
      "Loading extension module cpu_adam...\n"
      "[2023-07-10 12:00:00,123] [INFO] [utils.py:785:see_memory_usage] Before creating fp16\n"
      "[2023-07-10 12:00:00,124] [INFO] [utils.py:786:see_memory_usage] MA 12.61 GB         "
      "Max_MA 12.75 GB         CA 13.0 GB         Max_CA 13 GB \n"
      "[2023-07-10 12:00:00,125] [INFO] [utils.py:793:see_memory_usage] CPU Virtual Memory:  "
      "used = 35.15 GB, percent = 3.5%\n"
      "step 1 loss 2.5 MA 3 GB\n"
      "[2023-07-10 12:00:09,001] [INFO] [utils.py:786:see_memory_usage] MA 20.5 GB         Max_MA "
      "22.0 GB         CA 24.25 GB         Max_CA 25 GB \n",
      "train.log",
      [&](const SamplePlace&, const MemorySample& sample) { samples.push_back(sample); });
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  EXPECT_EQ(contents->format, LogFormat::kDeepSpeed);
  EXPECT_EQ(contents->snapshots, 2U);
  EXPECT_EQ(contents->runs, 1U);
  ASSERT_EQ(samples.size(), 2U);
  const DeviceMemory& device = samples[0].devices.at(0);
  EXPECT_EQ(device.name, "gpu");
  EXPECT_EQ(device.allocated_bytes, gib(12.61));
  EXPECT_EQ(device.peak_bytes, gib(12.75));
  EXPECT_EQ(device.reserved_bytes, gib(13));
  EXPECT_EQ(samples[0].host.used_bytes, gib(35.15));
  EXPECT_EQ(samples[1].iteration, 1);
  EXPECT_EQ(samples[1].devices.at(0).allocated_bytes, gib(20.5));
  EXPECT_EQ(samples[1].host.used_bytes, std::nullopt);
}

TEST(DeepSpeedLog, is_not_any_line_with_sizes) {
  for (const char* const line :
       {"", "MA 1 GB", "MA x GB Max_MA 1 GB CA 1 GB Max_CA 1 GB", "Max_MA 1 GB Max_CA 1 GB",
        "MA -1 GB Max_MA 1 GB CA 1 GB Max_CA 1 GB",
        "MA 1e300 GB Max_MA 1 GB CA 1 GB Max_CA 1 GB"}) {
    EXPECT_FALSE(DeepSpeedLog::knows(line)) << line;
  }
}

}  // namespace
}  // namespace plimsoll::logs
