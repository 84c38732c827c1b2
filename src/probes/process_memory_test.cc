#include "probes/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fake_machine.h"

namespace plimsoll::probes {
namespace {

using tests::FakeMachine;

TEST(ProcessMemory, this_process_is_known) {
  const auto reported = read_process_memory(::getpid(), Depth::kWithPss);
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->parent_pid, ::getppid());
  EXPECT_GT(reported->rss_bytes.value_or(0), std::uint64_t{1} << 20);
  EXPECT_GE(reported->peak_rss_bytes.value_or(0), *reported->rss_bytes);
  EXPECT_GT(reported->start_ticks, 0U);
  EXPECT_EQ(read_start_ticks(::getpid()), reported->start_ticks);
}

TEST(ProcessMemory, a_name_may_contain_anything) {
  const FakeMachine machine;
  machine.add_process(12, 1, "a) S 99 (b", "x", 500);
  const auto reported = read_process_memory(12, Depth::kQuick, machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->name, "a) S 99 (b");
  EXPECT_EQ(reported->parent_pid, 1);
  EXPECT_EQ(reported->start_ticks, 98765U);
  EXPECT_EQ(reported->rss_bytes, 500U << 10);
  EXPECT_EQ(reported->shared_memory_bytes, 3U << 10);
  EXPECT_EQ(reported->pss_bytes, std::nullopt);
}

TEST(ProcessMemory, unreported_figures_are_absent) {
  const FakeMachine machine;
  machine.write("/proc/5/stat", "5 (kernel) S 2");
  const auto reported = read_process_memory(5, Depth::kWithPss, machine.root());
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->rss_bytes, std::nullopt);
  EXPECT_EQ(reported->pss_bytes, std::nullopt);
  EXPECT_EQ(reported->private_bytes, std::nullopt);
  EXPECT_FALSE(read_process_memory(6, Depth::kQuick, machine.root()));
  machine.write("/proc/7/stat", "no brackets");
  EXPECT_FALSE(read_process_memory(7, Depth::kQuick, machine.root()));
}

TEST(Processes, are_listed_with_the_facts_of_one_reading) {
  const FakeMachine machine;
  machine.add_process(12, 1, "b", std::string("python\0train.py\0", 16), 8);
  machine.add_process(2, 1, "a", "", 4);
  machine.write("/proc/meminfo", "");
  const auto found = list_processes(machine.root());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].pid, 12);
  EXPECT_EQ(found[1].parent_pid, 1);
  EXPECT_EQ(found[1].rss_bytes, 8U * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(read_command_line(12, machine.root()), "python train.py");
  EXPECT_EQ(read_command_line(2, machine.root()), "");
}

TEST(ProcessFamily, children_are_reported_by_kind_and_shared_pages_counted_once) {
  const FakeMachine machine;
  const std::string train("python\0train.py\0", 16);
  machine.add_process(10, 1, "python", train, 1000);
  machine.add_process(11, 10, "pt_data_worker", train, 900);
  machine.add_process(12, 10, "python", train, 900);
  machine.add_process(13, 10, "python", std::string("python\0-c\0from multiprocessing.spawn", 36),
                      300);
  machine.add_process(14, 11, "sh", "sh", 10);  // a child of a worker
  machine.add_process(20, 1, "other", "other", 77);
  for (const int pid : {10, 11, 12, 13, 14}) machine.add_pss(pid, 200);
  const auto family = read_process_family(10, Depth::kWithPss, machine.root());
  ASSERT_TRUE(family);
  ASSERT_EQ(family->children.size(), 4U);
  EXPECT_EQ(family->children[0].kind, ChildKind::kDataLoaderWorker);
  EXPECT_EQ(family->children[1].kind, ChildKind::kForked);
  EXPECT_EQ(family->children[2].kind, ChildKind::kSpawned);
  EXPECT_EQ(family->children[3].kind, ChildKind::kProgram);
  EXPECT_EQ(family->children[3].memory.pid, 14);
  EXPECT_EQ(family->parent.private_bytes, 65U << 10);
  EXPECT_EQ(family->parent.shared_bytes, 42U << 10);
  EXPECT_EQ(family->rss_sum_bytes, (1000U + 900 + 900 + 300 + 10) << 10);
  EXPECT_EQ(family->pss_sum_bytes, 1000U << 10);
}

TEST(ProcessFamily, the_sum_is_absent_if_one_of_them_is_not_reported) {
  const FakeMachine machine;
  machine.add_process(10, 1, "python", "a", 1000);
  machine.add_process(11, 10, "python", "a", 900);
  machine.add_pss(10, 1);
  EXPECT_EQ(read_process_family(10, Depth::kWithPss, machine.root())->pss_sum_bytes, std::nullopt);
}

TEST(ProcessFamily, a_cycle_of_parents_ends) {
  const FakeMachine machine;
  machine.add_process(10, 11, "a", "a", 1);
  machine.add_process(11, 10, "a", "a", 1);
  EXPECT_EQ(read_process_family(10, Depth::kQuick, machine.root())->children.size(), 1U);
}

TEST(ProcessFamily, a_real_child_is_found) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto family = read_process_family(::getpid(), Depth::kQuick);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(family);
  ASSERT_EQ(family->children.size(), 1U);
  EXPECT_EQ(family->children[0].memory.pid, child);
  EXPECT_EQ(family->children[0].kind, ChildKind::kForked);
}

}  // namespace
}  // namespace plimsoll::probes
