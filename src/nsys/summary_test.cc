#include "nsys/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace plimsoll::nsys {
namespace {

using testing::HasSubstr;

// Output of nsys 2024, with other lines between the tables.
constexpr const char* kStats =
    "Generating SQLite file run.sqlite from run.nsys-rep\n"
    "Processing [run.sqlite] with [reports/cuda_gpu_mem_size_sum.py]... \n"
    "\n ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):\n\n"
    "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
    "402.653,48,8.389,8.389,8.389,8.389,0.000,[CUDA memcpy Host-to-Device]\n"
    "0.001,2,0.000,0.000,0.000,0.001,0.000,[CUDA memset]\n"
    "\n ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):\n\n"
    "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
    "99.9,2411520,48,50240.0,50176.0,49920,51200,320.1,[CUDA memcpy Host-to-Device]\r\n"
    "0.1,1000,2,500.0,500.0,500,500,0.0,[CUDA memset]\n"
    "\n ** CUDA API Summary (cuda_api_sum):\n\n"
    "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "60.0,5000000,12,1.0,1.0,1,900000,1.0,cudaMalloc_v3020\n"
    "30.0,7000000,4,1.0,1.0,1,800000,1.0,\"cudaFree_v3020\"\n"
    "10.0,3000,4,1.0,1.0,1,1,1.0,cudaLaunchKernel_v7000\n";

TEST(NsysSummary, tables_are_recognized_by_their_columns) {
  const NsysSummary summary = read_nsys_stats(kStats);
  EXPECT_EQ(summary.tables, 3U);
  ASSERT_EQ(summary.operations.size(), 2U);
  EXPECT_EQ(summary.operations[0].name, "memcpy Host-to-Device");
  EXPECT_DOUBLE_EQ(summary.operations[0].size_bytes, 402'653'000);
  EXPECT_EQ(summary.operations[0].count, 48U);
  EXPECT_EQ(summary.operations[0].time_ns, 2411520);
  EXPECT_EQ(summary.operations[1].name, "memset");
  ASSERT_EQ(summary.calls.size(), 2U);
  EXPECT_EQ(summary.calls[0].name, "cudaFree");
  EXPECT_EQ(summary.calls[1].name, "cudaMalloc");
  EXPECT_EQ(summary.calls[1].count, 12U);
  EXPECT_EQ(summary.calls[1].longest_ns, 900000);
}

TEST(NsysSummary, is_reported_in_plimsolls_terms) {
  EXPECT_EQ(
      nsys_summary_text(read_nsys_stats(kStats), 100, text::Color::kOff),
      "Copies and fills on the device\n       SIZE  COUNT  LARGEST    TIME  OPERATION\n  384.0 MiB "
      "    48  8.0 MiB  2.4 ms  memcpy Host-to-Device\n     1000 B      2   1000 B  1.0 us  "
      "memset\n\nCalls that allocate memory from the driver or free it\n  CALLS    TIME   LONGEST  "
      "CALL\n      4  7.0 ms  800.0 us  cudaFree\n     12  5.0 ms  900.0 us  cudaMalloc\n");
}

TEST(NsysSummary, a_program_without_a_gpu_has_nothing_to_report) {
  const NsysSummary summary =
      read_nsys_stats("SKIPPED: run.sqlite does not contain GPU memory data.\n");
  EXPECT_EQ(summary.tables, 0U);
  EXPECT_EQ(summary.skipped, 1U);
  EXPECT_THAT(nsys_summary_text(summary, 100, text::Color::kOff), HasSubstr("recorded no copies"));
}

TEST(NsysSummary, invalid_numbers_are_ignored) {
  const NsysSummary summary = read_nsys_stats(
      "Total (MB),Count,Max (MB),Operation\nnan,-1,inf,a\n1e300,99999999999999999999,,b\n,,,c\n");
  ASSERT_EQ(summary.operations.size(), 3U);
  EXPECT_LE(summary.operations[0].size_bytes, 1e24);
  EXPECT_FALSE(nsys_summary_text(summary, 100, text::Color::kOff).empty());
}

TEST(NsysSummary, no_text_breaks_the_reader) {
  const std::string good = kStats;
  std::mt19937 random(1);
  for (int i = 0; i < 3'000; ++i) {
    std::string text = good.substr(0, random() % good.size());
    for (int changes = 0; changes < 5 && !text.empty(); ++changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    EXPECT_FALSE(nsys_summary_text(read_nsys_stats(text), 80, text::Color::kOn).empty());
  }
}

}  // namespace
}  // namespace plimsoll::nsys
