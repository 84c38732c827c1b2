#include "probes/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "probes/process_memory.h"
#include "tests/support/fake_machine.h"

namespace plimsoll::probes {
namespace {

using tests::FakeMachine;

constexpr const char* kMeminfo =
    "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:   5000 kB\n"
    "SwapTotal:      400 kB\nSwapFree:       300 kB\n";

TEST(MachineMemory, is_reported_as_far_as_it_is_known) {
  const FakeMachine machine;
  EXPECT_EQ(read_machine_memory(machine.root()).total_bytes, std::nullopt);
  machine.write("/proc/meminfo", kMeminfo);
  machine.write("/proc/pressure/memory", "some avg10=3.00 avg60=2.00 avg300=1.00 total=9\n");
  auto reported = read_machine_memory(machine.root());
  EXPECT_EQ(reported.total_bytes, 8000U << 10);
  EXPECT_EQ(reported.available_bytes, 5000U << 10);
  EXPECT_EQ(reported.swap_free_bytes, 300U << 10);
  EXPECT_DOUBLE_EQ(reported.pressure.value_or(MemoryPressure{}).some_percent_60s, 2.0);
  EXPECT_FALSE(reported.shared_memory);
  machine.write("/dev/shm/torch_1", "x");
  reported = read_machine_memory(machine.root());
  ASSERT_TRUE(reported.shared_memory);
  EXPECT_GE(reported.shared_memory->size_bytes, reported.shared_memory->used_bytes);
}

TEST(HostProbe, reports_the_machine_if_no_group_has_a_limit) {
  const FakeMachine machine;
  machine.write("/proc/meminfo", kMeminfo);
  machine.write("/proc/self/statm", "900 33 12 1 0 99 0\n");
  HostProbe probe(machine.root());
  const HostMemory reported = probe.read();
  EXPECT_EQ(reported.rss_bytes, 33U * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(reported.used_bytes, 3000U << 10);
  EXPECT_EQ(reported.total_bytes, 8000U << 10);
}

TEST(HostProbe, reports_the_limiting_group_without_its_file_cache) {
  const FakeMachine machine;
  machine.write("/proc/meminfo", kMeminfo);
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.write("/sys/fs/cgroup/job/memory.max", "4000000\n");
  machine.write("/sys/fs/cgroup/job/memory.current", "3000000\n");
  machine.write("/sys/fs/cgroup/job/memory.stat", "inactive_file 1000000\n");
  HostProbe probe(machine.root());
  EXPECT_EQ(probe.read().used_bytes, 2000000U);
  machine.write("/sys/fs/cgroup/job/memory.current", "3500000\n");
  const HostMemory reported = probe.read();
  EXPECT_EQ(reported.used_bytes, 2500000U);
  EXPECT_EQ(reported.total_bytes, 4000000U);
}

TEST(HostProbe, ignores_a_limit_above_the_machines_memory) {
  const FakeMachine machine;
  machine.write("/proc/meminfo", kMeminfo);
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.write("/sys/fs/cgroup/job/memory.max", "9000000000\n");
  machine.write("/sys/fs/cgroup/job/memory.current", "1\n");
  EXPECT_EQ(HostProbe(machine.root()).read().total_bytes, 8000U << 10);
}

TEST(HostProbe, without_proc_nothing_is_known) {
  const FakeMachine machine;
  const HostMemory reported = HostProbe(machine.root()).read();
  EXPECT_EQ(reported.rss_bytes, std::nullopt);
  EXPECT_EQ(reported.used_bytes, std::nullopt);
  EXPECT_EQ(reported.total_bytes, std::nullopt);
}

TEST(HostMemory, what_the_program_frees_is_free_in_the_heap) {
  const auto before = read_free_heap();
  if (before.value_or(0) == 0) GTEST_SKIP() << "the C library does not report it";
  constexpr std::size_t kBytes = 16u << 10;  // below the size from which blocks are mapped
  std::vector<std::unique_ptr<char[]>> blocks(512);
  for (auto& block : blocks) block.reset(new char[kBytes]);
  const std::unique_ptr<char[]> last(new char[kBytes]);  // the heap is not shortened
  blocks.clear();
  EXPECT_GE(*read_free_heap(), *before + 256 * kBytes);
}

TEST(HostMemory, of_this_process_agrees_with_its_status) {
  const HostMemory reported = read_host_memory();
  const auto status = read_process_memory(::getpid(), Depth::kQuick);
  ASSERT_TRUE(reported.rss_bytes && status && status->rss_bytes);
  constexpr double kBatches = 4 << 20;  // the kernel counts in batches per CPU
  EXPECT_NEAR(static_cast<double>(*reported.rss_bytes), static_cast<double>(*status->rss_bytes),
              kBatches);
  EXPECT_GT(reported.total_bytes.value_or(0), reported.used_bytes.value_or(0));
}

}  // namespace
}  // namespace plimsoll::probes
