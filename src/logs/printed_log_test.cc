#include "logs/printed_log.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/reader.h"

namespace plimsoll::logs {
namespace {

std::uint64_t mb(double count) {
  return static_cast<std::uint64_t>(std::llround(count * 1024 * 1024));
}

struct ReadLog {
  std::vector<MemorySample> samples;
  LogFormat format = LogFormat::kTextLog;
};

ReadLog read(const std::string& text) {
  ReadLog log;
  const auto contents =
      read_log_bytes(text, "train.log", [&](const SamplePlace& place, const auto& sample) {
        log.samples.push_back(sample);
        log.format = place.format;
      });
  EXPECT_TRUE(contents.ok()) << contents.error().message;
  return log;
}

// A snapshot of another profiler, with the line that begins it.
std::string of_another_profiler(const std::string& begin) {
  return begin +
         "\nMemory:\n  Allocated: 8156.2 MB | Reserved: 10976.0 MB\n  Fragmentation: 25.8%\n"
         "Total Tensors: 1289\n\nTensor Categories:\n  parameters     :   5224.7 MB  ( 64.1%)\n"
         "  activations    :   2860.4 MB  ( 35.1%)\n  gradients      :     68.7 MB  (  0.8%)\n"
         "  other          :      0.0 MB\n\nData Types:\n  float32: 7549.9 MB\n  int64: 575.0 "
         "MB\n\n"
         "Large Tensors (>100MB): 7\n";
}

TEST(PrintedLog, reads_the_snapshots_of_other_profilers) {
  for (const char* const begin : {"=== Iteration 50000 ===", "[ITERATION 50000]",
                                  "----- Iteration: 50000 | loss 0.25 -----"}) {
    const ReadLog log =
        read("Loading\n" + of_another_profiler("Iteration 40000") + of_another_profiler(begin));
    ASSERT_EQ(log.samples.size(), 2U) << begin;
    EXPECT_EQ(log.samples[0].iteration, 40000);
    const MemorySample& sample = log.samples[1];
    EXPECT_EQ(sample.iteration, 50000);
    ASSERT_EQ(sample.devices.size(), 1U);
    const DeviceMemory& device = sample.devices[0];
    EXPECT_EQ(device.name, "the device");
    EXPECT_EQ(device.allocated_bytes, mb(8156.2));
    EXPECT_EQ(device.reserved_bytes, mb(10976));
    EXPECT_EQ(device.live_count, 1289U);
    ASSERT_EQ(device.categories.size(), 4U);
    EXPECT_EQ(device.categories[0].name, "parameter");
    EXPECT_EQ(device.categories[0].size_bytes, mb(5224.7));
    EXPECT_EQ(device.categories[3].name, "other");
    ASSERT_EQ(device.dtypes.size(), 2U);
    EXPECT_EQ(device.dtypes[1].name, "int64");
    EXPECT_EQ(device.large_count, 7U);
    EXPECT_EQ(sample.large_tensor_bytes, mb(100));
  }
  // Joined: what begins a snapshot of a text log may also begin that of another program.
  const ReadLog log = read(of_another_profiler("=== Iteration 0 ===") +
                           of_another_profiler("=== Iteration 50 ==="));
  EXPECT_EQ(log.format, LogFormat::kTextLog);
  ASSERT_EQ(log.samples.size(), 2U);
  EXPECT_EQ(log.samples[1].devices.at(0).categories.size(), 4U);
  EXPECT_EQ(log.samples[1].devices.at(0).dtypes.size(), 2U);
}

TEST(PrintedLog, reads_the_lines_of_training_loops) {
  const ReadLog log = read(
      "Epoch 1\n  Batch 0: GPU 23.1 MB, CPU 1645.1 MB, loss=0.014553\n"
      "  Batch 1: GPU 24 MB, CPU 1645.2 MB, loss=0.013612\n"
      "  Epoch end: GPU 23.1 MB allocated, 3242.0 MB reserved, peak 2880.3 MB\n"
      "After loading: CPU: 850.2 MB | GPU Allocated: 15.3 MB | GPU Reserved: 20.0 MB\n"
      "[Memory] training epoch: CPU +200.5 MB, GPU +2500.8 MB\n"
      "         Peak GPU: 2880.3 MB\n");
  EXPECT_EQ(log.format, LogFormat::kPrinted);
  ASSERT_EQ(log.samples.size(), 4U);
  EXPECT_EQ(log.samples[0].devices.at(0).allocated_bytes, mb(23.1));
  EXPECT_EQ(log.samples[0].host.rss_bytes, mb(1645.1));
  EXPECT_EQ(log.samples[0].loss, 0.014553);
  EXPECT_EQ(log.samples[1].iteration, 1);
  EXPECT_EQ(log.samples[2].devices.at(0).reserved_bytes, mb(3242));
  EXPECT_EQ(log.samples[2].devices.at(0).peak_bytes, mb(2880.3));
  EXPECT_EQ(log.samples[3].devices.at(0).allocated_bytes, mb(15.3));
  EXPECT_EQ(log.samples[3].host.rss_bytes, mb(850.2));
}

TEST(PrintedLog, units_may_be_in_labels_and_headings) {
  for (const char* const line :
       {"memory (MB) | allocated: 64.0 | max allocated: 128.0 | reserved: 96.0 | max reserved: 200",
        "MemAllocated=64MB, MaxMemAllocated=128MB, mem_reserved_mb=96",
        "{\"gpu_mem_allocated_mb\": 64.0, \"gpu_mem_reserved_mb\": 96, \"gpu_mem_peak_mb\": 128}",
        "memory_allocated=67108864 memory_reserved=100663296 max_memory_allocated=134217728",
        "Allocated memory: 64 MB, Reserved memory: 96 MB, Peak memory: 128 MB"}) {
    const ReadLog log = read(std::string(line) + "\n");
    ASSERT_EQ(log.samples.size(), 1U) << line;
    const DeviceMemory& device = log.samples[0].devices.at(0);
    EXPECT_EQ(device.allocated_bytes, mb(64)) << line;
    EXPECT_EQ(device.reserved_bytes, mb(96)) << line;
    EXPECT_EQ(device.peak_bytes, mb(128)) << line;
  }
}

TEST(PrintedLog, a_label_begins_behind_the_number_of_another) {
  const ReadLog log = read("train step 7 loss 0.5 cuda memory allocated: 64 MB\n");
  ASSERT_EQ(log.samples.size(), 1U);
  EXPECT_EQ(log.samples[0].iteration, 7);
  EXPECT_EQ(log.samples[0].devices.at(0).allocated_bytes, mb(64));
}

TEST(PrintedLog, numbered_lines_without_allocated_memory_are_no_log) {
  for (const std::string line : {"reserved: 2 GB", "peak memory allocated: 12.3 GB",
                                 "Max allocated: 3000 MB", "loss=0.5 mem_reserved=3000 MB"}) {
    const std::string text = "step 1 " + line + "\nstep 2 " + line + "\n";
    EXPECT_FALSE(read_log_bytes(text, "train.log", [](const auto&, const auto&) {}).ok()) << line;
  }
  EXPECT_EQ(read("step 3\nReserved: 90 MB\nAllocated: 70 MB\n").samples.at(0).iteration, 3);
}

TEST(PrintedLog, is_not_any_line_with_sizes) {
  for (const char* const line :
       {"", "Allocated:", "Allocated: x MB", "Allocated: -5 MB", "GPU +5.0 MB",
        "Allocated: 1e999 GB", "Allocated: 64", "memory_allocated=12",
        "memory (MB) | allocated: 64%", "Downloading model: 4.2 GB",
        "GPU 0 has a total capacity of 22.05 GiB",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 14.05 "
        "GiB "
        "already allocated; 1.19 GiB free; 14.20 GiB reserved in total by PyTorch)",
        "Of the allocated memory 20.10 GiB is allocated by PyTorch, and 1.02 GiB is reserved by "
        "PyTorch but unallocated.",
        "| Allocated memory      |   1024 KiB |   2048 KiB |", "CPU: 850.2 MB"}) {
    EXPECT_FALSE(PrintedLog([](const auto&) {}).line(line)) << line;
  }
}

}  // namespace
}  // namespace plimsoll::logs
