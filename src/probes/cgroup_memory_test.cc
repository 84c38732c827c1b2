#include "probes/cgroup_memory.h"

#include <gtest/gtest.h>

#include "tests/support/fake_machine.h"

namespace plimsoll::probes {
namespace {

using tests::FakeMachine;

constexpr const char* kTop = "/sys/fs/cgroup";

void add_group(const FakeMachine& machine, const std::string& folder, const std::string& limit,
               const std::string& current) {
  machine.write(folder + "/memory.max", limit + "\n");
  machine.write(folder + "/memory.current", current + "\n");
}

TEST(CgroupMemory, without_a_controller_there_is_nothing_to_report) {
  const FakeMachine machine;
  EXPECT_FALSE(read_cgroup_memory(machine.root()));
  machine.write("/proc/self/cgroup", "0::/a\n");
  EXPECT_FALSE(read_cgroup_memory(machine.root()));
}

TEST(CgroupMemory, version_2_is_reported_with_its_pressure_and_its_kills) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  const std::string folder = std::string(kTop) + "/job";
  add_group(machine, folder, "1000000", "900000");
  machine.write(folder + "/memory.stat", "anon 1\ninactive_file 300000\nactive_file 5\n");
  machine.write(folder + "/memory.events", "low 0\nhigh 1\nmax 17\noom 3\noom_kill 2\n");
  machine.write(folder + "/memory.pressure",
                "some avg10=1.50 avg60=0.25 avg300=0.00 total=1234\n"
                "full avg10=0.75 avg60=0.00 avg300=0.00 total=56\n");
  const auto reported = read_cgroup_memory(machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->path, "/job");
  EXPECT_EQ(reported->version, 2);
  EXPECT_EQ(reported->limit_bytes, 1000000U);
  EXPECT_EQ(reported->current_bytes, 900000U);
  EXPECT_EQ(reported->used_bytes(), 600000U);
  EXPECT_EQ(reported->oom_kills, 2U);
  EXPECT_EQ(reported->limit_hits, 17U);
  ASSERT_TRUE(reported->pressure);
  EXPECT_DOUBLE_EQ(reported->pressure->some_percent_10s, 1.5);
  EXPECT_DOUBLE_EQ(reported->pressure->some_percent_60s, 0.25);
  EXPECT_DOUBLE_EQ(reported->pressure->full_percent_10s, 0.75);
  EXPECT_EQ(reported->pressure->full_total_us, 56U);
}

TEST(CgroupMemory, the_group_with_the_least_free_memory_counts) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "0::/pod/container/task\n");
  add_group(machine, std::string(kTop) + "/pod", "2000", "1990");
  add_group(machine, std::string(kTop) + "/pod/container", "1000", "400");
  add_group(machine, std::string(kTop) + "/pod/container/task", "max", "300");
  const auto reported = read_cgroup_memory(machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->path, "/pod");
  EXPECT_EQ(reported->limit_bytes, 2000U);
}

TEST(CgroupMemory, a_container_that_sees_the_hosts_path_reads_its_own_root) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "0::/kubepods/pod1/abc\n");
  add_group(machine, kTop, "5000", "100");
  const auto reported = read_cgroup_memory(machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->path, "/");
  EXPECT_EQ(reported->limit_bytes, 5000U);
}

TEST(CgroupMemory, version_1_reports_no_limit_as_a_large_number) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "9:cpu:/x\n4:memory:/box\n0::/\n");
  const std::string folder = std::string(kTop) + "/memory/box";
  machine.write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write(folder + "/memory.usage_in_bytes", "700\n");
  machine.write(folder + "/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
  machine.write(folder + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  auto reported = read_cgroup_memory(machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->version, 1);
  EXPECT_EQ(reported->limit_bytes, std::nullopt);
  EXPECT_EQ(reported->used_bytes(), 500U);
  EXPECT_EQ(reported->oom_kills, 5U);
  machine.write(folder + "/memory.limit_in_bytes", "4096\n");
  reported = read_cgroup_memory(machine.root());
  EXPECT_EQ(reported->limit_bytes, 4096U);
}

TEST(CgroupMemory, files_of_garbage_report_nothing) {
  const FakeMachine machine;
  machine.write("/proc/self/cgroup", "::\n\n0\n0::\n7:memory\n0::/job\n");
  const std::string folder = std::string(kTop) + "/job";
  add_group(machine, folder, "plenty", "some");
  machine.write(folder + "/memory.pressure", "avg\n");
  const auto reported = read_cgroup_memory(machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->limit_bytes, std::nullopt);
  EXPECT_EQ(reported->used_bytes(), std::nullopt);
  EXPECT_FALSE(reported->pressure);
}

}  // namespace
}  // namespace plimsoll::probes
