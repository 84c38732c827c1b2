#include "logs/nvidia_smi_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/reader.h"

namespace plimsoll::logs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

std::vector<MemorySample> read_smi_log(const std::string& text) {
  std::vector<MemorySample> samples;
  const auto contents = read_log_bytes(
      text, "smi.csv",
      [&](const SamplePlace&, const MemorySample& sample) { samples.push_back(sample); });
  EXPECT_TRUE(contents.ok()) << contents.error().message;
  if (!contents.ok()) return {};
  EXPECT_EQ(contents->format, LogFormat::kNvidiaSmi);
  return samples;
}

// "gpu:0 2 of 100" for each device of each round.
std::vector<std::string> reported(const std::string& text) {
  std::vector<std::string> lines;
  const auto mib = [](const std::optional<std::uint64_t>& bytes) {
    return bytes ? std::to_string(*bytes / kMib) : "?";
  };
  for (const MemorySample& sample : read_smi_log(text)) {
    std::string& line = lines.emplace_back();
    for (const DeviceMemory& device : sample.devices) {
      line += (line.empty() ? "" : ", ") + device.name + " " + mib(device.used_bytes) + " of " +
              mib(device.total_bytes);
    }
  }
  return lines;
}

TEST(NvidiaSmiLog, is_read_as_nvidia_smi_writes_it) {
  const auto samples = read_smi_log(
      "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
      "2026/04/25 16:06:06.780, 0, 2 MiB, 100 MiB\n"
      "2026/04/25 16:06:06.790, 1, 3 MiB, 100 MiB\n"
      "2026/04/25 16:06:11.780, 0, 50 MiB, 100 MiB\n"
      "2026/04/25 16:06:11.790, 1, [N/A], 100 MiB\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].devices[1].name, "gpu:1");
  EXPECT_EQ(samples[0].devices[1].used_bytes, 3 * kMib);
  EXPECT_EQ(samples[1].devices[1].used_bytes, std::nullopt);
  EXPECT_EQ(samples[1].iteration, 1);
  EXPECT_EQ(samples[1].time_ns - samples[0].time_ns, 5'000'000'000);
}

TEST(NvidiaSmiLog, counts_rows_with_impossible_sizes_as_unread) {
  std::size_t samples = 0;
  const auto contents = read_log_bytes(
      "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
      "2026/04/25 16:06:06.780, 0, 2 MiB, 100 MiB\n"
      "2026/04/25 16:06:11.780, 0, 17592186044416 MiB, 100 MiB\n"
      "2026/04/25 16:06:16.780, 0, -5 MiB, 100 MiB\n"
      "2026/04/25 16:06:21.780, 0, 1e300, 100 MiB\n"
      "2026/04/25 16:06:26.780, 0, [N/A], 100 MiB\n",
      "smi.csv", [&](const SamplePlace&, const MemorySample&) { ++samples; });
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->unread_lines, 3U);
  EXPECT_EQ(samples, 2U);
}

TEST(NvidiaSmiLog, is_read_without_units_and_with_custom_columns) {
  EXPECT_THAT(reported("memory.total,timestamp,gpu,index,memory.used,power.draw\n"
                       "100,2025-09-08T17:26:50+08:00,0, 0, 4, 74.01\n"
                       "100,2025-09-08T17:26:50+08:00,1, 0, 5, 74.01\n"
                       "100,2025-09-08T17:26:51+08:00,0, 0, 6, 74.01\n"),
              ElementsAre("gpu:0 4 of 100, gpu:1 5 of 100", "gpu:0 6 of 100"));
  EXPECT_THAT(reported("memory.used [MiB]\n2\n3\n"), ElementsAre("gpu:0 2 of ?", "gpu:0 3 of ?"));
  EXPECT_THAT(reported("name, uuid, memory.free [MiB], memory.total [MiB]\n"
                       "NVIDIA X, GPU-aa, 60 MiB, 100 MiB\nNVIDIA X, GPU-bb, 50 MiB, 100 MiB\n"),
              ElementsAre("GPU-aa 40 of 100, GPU-bb 50 of 100"));
}

TEST(NvidiaSmiLog, is_read_with_repeated_headers) {
  EXPECT_THAT(reported("index, memory.used [MiB]\n0, 2 MiB\nindex, memory.used [MiB]\n0, 3 MiB\n"
                       "memory.used [MiB], index\n4 MiB, 0\n"),
              ElementsAre("gpu:0 2 of ?", "gpu:0 3 of ?", "gpu:0 4 of ?"));
}

TEST(NvidiaSmiLog, infers_the_columns_of_a_log_without_header_from_its_values) {
  EXPECT_THAT(reported("2026/04/25 16:06:06.780, 0 %, 2 MiB, 98 MiB, 27, 11 W\n"
                       "2026/04/25 16:06:11.788, 0 %, 95 MiB, 4 MiB, 27, 11 W\n"),
              ElementsAre("gpu:0 2 of 100", "gpu:0 95 of 99"));
  EXPECT_THAT(reported("0, 2 MiB, 98 MiB\n1, 5 MiB, 98 MiB\n"),
              ElementsAre("gpu:0 2 of 98, gpu:1 5 of 98"));
  EXPECT_THAT(reported("98 MiB, 2 MiB\n98 MiB, 5 MiB\n"),
              ElementsAre("gpu:0 2 of 98", "gpu:0 5 of 98"));
  EXPECT_THAT(reported("2 MiB, 98 MiB, 100 MiB\n5 MiB, 95 MiB, 100 MiB\n"),
              ElementsAre("gpu:0 2 of 100", "gpu:0 5 of 100"));
  EXPECT_THAT(reported("100 MiB, 2 MiB, 98 MiB\n"), ElementsAre("gpu:0 2 of 100"));
}

TEST(NvidiaSmiLog, distinguishes_gpus_by_position_in_a_round_if_necessary) {
  EXPECT_THAT(reported("timestamp, memory.used [MiB]\n"
                       "2026/04/25 16:06:06.780, 2 MiB\n2026/04/25 16:06:06.783, 3 MiB\n"
                       "2026/04/25 16:06:11.780, 4 MiB\n2026/04/25 16:06:11.783, 5 MiB\n"),
              ElementsAre("gpu:0 2 of ?, gpu:1 3 of ?", "gpu:0 4 of ?, gpu:1 5 of ?"));
}

TEST(NvidiaSmiLog, is_read_with_line_breaks_in_quotes_and_foreign_lines) {
  EXPECT_THAT(reported("name, index, memory.used [MiB]\n\"NVIDIA\nX, 80GB\", 0, 2 MiB\n"
                       "nvidia-smi has failed\n\nname, 1, \"7 MiB\"\n"),
              ElementsAre("gpu:0 2 of ?, gpu:1 7 of ?"));
  std::string endless = "index, memory.used [MiB]\n0, 2 MiB\n\"never closed\n";
  for (int i = 0; i < 7; ++i) endless += "0, 3 MiB\n";
  EXPECT_THAT(reported(endless + "0, 4 MiB\n"), ElementsAre("gpu:0 2 of ?", "gpu:0 4 of ?"));
}

TEST(NvidiaSmiLog, reports_that_memory_was_not_logged) {
  const auto contents =
      read_log_bytes("timestamp, utilization.gpu [%]\n2026/04/25 16:06:06.780, 5 %\n", "smi.csv",
                     [](const SamplePlace&, const MemorySample&) {});
  ASSERT_FALSE(contents.ok());
  EXPECT_EQ(contents.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(contents.error().message,
              HasSubstr("smi.csv is an nvidia-smi log without the memory in use"));
}

}  // namespace
}  // namespace plimsoll::logs
