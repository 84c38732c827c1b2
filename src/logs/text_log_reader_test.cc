#include "logs/text_log_reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/lines.h"
#include "tests/support/synthetic_sample.h"
#include "text_log/text_log.h"

namespace plimsoll::logs {
namespace {

using tests::kMb;
using tests::made_cpu;
using tests::synthetic_sample;

struct ReadTextLog {
  std::vector<MemorySample> samples;
  std::uint64_t unread_lines = 0;
  std::uint64_t cut_snapshots = 0;
};

ReadTextLog read_text_log(const std::string& text) {
  ReadTextLog result;
  TextLogReader reader([&](const MemorySample& sample) { result.samples.push_back(sample); });
  LogLines lines([&](std::string_view line) { reader.line(line); });
  lines.feed(text);
  lines.finish();
  reader.finish();
  result.unread_lines = reader.unread_lines();
  result.cut_snapshots = reader.cut_snapshots();
  return result;
}

TEST(TextLogReader, round_trips_written_logs) {
  MemorySample sample = synthetic_sample();
  sample.batch_size = 32;
  sample.ran_out = true;
  sample.ran_out_of = "cuda:0";
  sample.devices[1].bar = tests::made_bar();
  sample.devices[1].at_peak = {{"parameter", 2000 * kMb, 0}, {"(rest)", 7000 * kMb, 0}};
  sample.devices[1].peak_phase = "backward";
  sample.devices[1].peak_tensors = {{"", "temporary", "float32", "[3, 4]", "unet.up", 900 * kMb}};
  sample.devices[1].growth_bytes = kMb / 32 + 1;
  sample.devices[1].growing = {{"activation", kMb / 32 + 1, 3}};
  sample.devices[1].unused_bytes = 5 * kMb + 1;
  sample.devices[1].unused = {{"unet.up", 3 * kMb, 2}, {"", 2 * kMb, 1}};
  constexpr text_log::TextLogOptions kWhole{.most_bytes = 4096};
  const std::string snapshot = text_log::text_log_snapshot(sample, kWhole);
  const ReadTextLog result = read_text_log(text_log::text_log_header(5) + snapshot);
  EXPECT_EQ(result.unread_lines, 0U);
  EXPECT_EQ(result.cut_snapshots, 0U);
  ASSERT_EQ(result.samples.size(), 1U);
  // Compares texts: writing the sample that was read must reproduce the snapshot.
  EXPECT_EQ(text_log::text_log_snapshot(result.samples.front(), kWhole), snapshot);
  const MemorySample& back = result.samples.front();
  EXPECT_EQ(back.time_ns, sample.time_ns);
  ASSERT_EQ(back.devices.size(), 2U);
  EXPECT_EQ(back.devices[0].name, "cpu");
  EXPECT_EQ(back.devices[0].live_bytes, 30 * kMb);
  EXPECT_EQ(back.devices[1].reserved_bytes, 10'130 * kMb);
  EXPECT_EQ(back.devices[1].growth_bytes, kMb / 32 + 1);  // exact, however small
  EXPECT_EQ(back.devices[1].growing[0].size_bytes, kMb / 32 + 1);
  EXPECT_EQ(back.devices[1].unused_bytes, 5 * kMb + 1);
  EXPECT_EQ(back.devices[1].unused[0].name, "unet.up");
  EXPECT_EQ(back.devices[1].peak_phase, "backward");
  EXPECT_EQ(back.devices[1].peak_tensors[0].category, "temporary");
  ASSERT_TRUE(back.devices[1].bar);
  EXPECT_EQ(back.devices[1].bar->used_bytes, 12'000 * kMb);
  EXPECT_EQ(back.devices[1].bar->parts[4].pid, 77);
  EXPECT_EQ(back.devices[1].bar->parts[6].size_bytes, -50 * static_cast<std::int64_t>(kMb));
  EXPECT_EQ(back.devices[1].large_tensors[1].name, "unet.up.weight");
  EXPECT_EQ(back.devices[1].layers[3].name, "");
  EXPECT_EQ(back.large_tensor_bytes, 100 * kMb);
  EXPECT_EQ(back.batch_size, 32);
  EXPECT_TRUE(back.ran_out);
  EXPECT_EQ(back.ran_out_of, "cuda:0");
  EXPECT_EQ(back.devices[1].at_peak[1].name, "(rest)");
  EXPECT_EQ(back.devices[1].at_peak[1].size_bytes, 7000 * kMb);
}

TEST(TextLogReader, reads_names_that_look_like_the_format) {
  MemorySample sample = synthetic_sample();
  sample.devices[1].layers = {{"a, b 3 MB in 4", kMb, 1}, {"x | y\n=== Iteration 5 ===", kMb, 2}};
  sample.devices[1].large_tensors[0].name = "a | b";
  const std::string snapshot = text_log::text_log_snapshot(sample, {});
  const ReadTextLog result = read_text_log(snapshot);
  ASSERT_EQ(result.samples.size(), 1U);
  EXPECT_EQ(result.unread_lines, 0U);
  EXPECT_EQ(text_log::text_log_snapshot(result.samples.front(), {}), snapshot);
  EXPECT_EQ(result.samples.front().devices[1].layers[0].name, "a; b 3 MB in 4");
}

TEST(TextLogReader, omits_a_truncated_snapshot) {
  const std::string one = text_log::text_log_snapshot(synthetic_sample(), {});
  for (std::size_t size = 1; size < one.size(); ++size) {
    const ReadTextLog result = read_text_log(one + one.substr(0, size));
    EXPECT_EQ(result.samples.size(), 1U) << size;
    EXPECT_LE(result.cut_snapshots + result.unread_lines, 2U) << size;
  }
}

TEST(TextLogReader, reads_a_log_with_only_a_cpu) {
  MemorySample sample;
  sample.devices = {made_cpu()};
  const ReadTextLog result = read_text_log(text_log::text_log_snapshot(sample, {}));
  ASSERT_EQ(result.samples.size(), 1U);
  ASSERT_EQ(result.samples[0].devices.size(), 1U);
  EXPECT_EQ(result.samples[0].devices[0].live_bytes, 30 * kMb);
  EXPECT_EQ(result.samples[0].devices[0].allocated_bytes, std::nullopt);
}

TEST(TextLogReader, rejects_impossible_numbers) {
  const ReadTextLog result = read_text_log(
      "=== Iteration 1 ===\nDevice: cuda:0\nAllocated: 99999999999999999999 MB\n"
      "Reserved: -1 MB\nPeak: nan MB\nDevice used: 1e999 MB\nTensors: 1e3 in 5 MB\n"
      "Categories: a 1 MB in -1\nFragmentation: inf%\nDevice used: 5 MB of x\nHost: ram 5 MB\n\n"
      "=== Iteration 99999999999999999999999999 ===\nDevice: cuda:0\n\n" +
      ("=== Iteration 1" + std::string(1000, '0') + " ===\n"));
  ASSERT_EQ(result.samples.size(), 1U);
  const DeviceMemory& device = result.samples[0].devices.at(0);
  EXPECT_EQ(device.allocated_bytes, std::nullopt);
  EXPECT_EQ(device.reserved_bytes, std::nullopt);
  EXPECT_EQ(device.peak_bytes, std::nullopt);
  EXPECT_TRUE(device.categories.empty());
  EXPECT_EQ(result.unread_lines, 12U);
}

TEST(TextLogReader, rejects_figures_whose_sums_would_overflow) {
  const ReadTextLog result = read_text_log(
      "=== Iteration 1 ===\nDevice: cuda:0\nAllocated: 1099511627776.0 MB\n"
      "Categories: a 1 MB in 18446744073709551615\nTensors: 9223372036854775807 in 5 MB\n"
      "Device bar: tensors 1.0 MB, unexplained -3.0 MB\n\n"
      "=== Iteration 9223372036854775807 ===\n\n");
  ASSERT_EQ(result.samples.size(), 1U);
  const DeviceMemory& device = result.samples[0].devices.at(0);
  EXPECT_EQ(device.allocated_bytes, std::nullopt);
  EXPECT_EQ(device.live_count, 0U);
  EXPECT_TRUE(device.categories.empty());
  EXPECT_FALSE(device.bar);
  EXPECT_EQ(result.unread_lines, 5U);
}

TEST(TextLogReader, rejects_a_snapshot_without_a_number) {
  for (const char* line : {"=== Iteration ===", "=== Iteration  ===", "=== Iteration x ==="}) {
    const ReadTextLog result = read_text_log(std::string(line) + "\nDevice: cpu\n\n");
    EXPECT_TRUE(result.samples.empty()) << line;
    EXPECT_EQ(result.unread_lines, 2U) << line;
  }
}

TEST(TextLogReader, recognizes_its_own_lines) {
  EXPECT_TRUE(TextLogReader::knows("# Plimsoll tensor profile, format 1. MB"));
  EXPECT_TRUE(TextLogReader::knows("=== Iteration 7 | 2026-11-20T16:40:13.125Z ==="));
  EXPECT_FALSE(TextLogReader::knows("Iteration 7"));
  EXPECT_FALSE(TextLogReader::knows(""));
}

}  // namespace
}  // namespace plimsoll::logs
