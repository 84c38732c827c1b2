#include "probes/worker_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/fake_machine.h"

namespace plimsoll::probes {
namespace {

using tests::FakeMachine;

const std::string kTrain("python\0train.py\0", 16);

// A trainer with two workers, one of them started by a fork server, and a program.
void add_family(const FakeMachine& machine, int trainer) {
  machine.add_process(trainer, 1, "python", kTrain, 1000);
  machine.add_process(2, trainer, "pt_data_worker", kTrain, 900);
  machine.add_process(3, trainer, "python",
                      std::string("python\0-c\0from multiprocessing.forkserver", 41), 300);
  machine.add_process(4, 3, "pt_data_worker", kTrain, 300);
  machine.add_process(5, trainer, "nvidia-smi", "nvidia-smi", 10);
  for (const int pid : {2, 3, 4, 5}) machine.add_pss(pid, 200);
}

TEST(WorkerMemory, is_the_private_memory_of_workers) {
  const FakeMachine machine;
  add_family(machine, 10);
  const WorkerMemory workers = read_worker_memory(10, machine.root());
  EXPECT_EQ(workers.count, 3U);
  EXPECT_EQ(workers.private_bytes, 3 * (65U << 10));
  EXPECT_EQ(read_worker_memory(5, machine.root()).count, 0U);
}

TEST(WorkerMemory, comes_from_the_children_of_each_thread_where_the_kernel_lists_them) {
  const FakeMachine machine;
  add_family(machine, 10);
  machine.write("/proc/10/task/10/children", "2 ");
  machine.write("/proc/10/task/11/children", "");
  const WorkerMemory workers = read_worker_memory(10, machine.root());
  EXPECT_EQ(workers.count, 1U);  // 3 is not listed
  EXPECT_EQ(workers.private_bytes, 65U << 10);
}

TEST(WorkerMemory, is_unknown_if_that_of_one_worker_is) {
  const FakeMachine machine;
  add_family(machine, 10);
  machine.add_process(6, 10, "pt_data_worker", kTrain, 900);
  EXPECT_EQ(read_worker_memory(10, machine.root()).count, 4U);
  EXPECT_EQ(read_worker_memory(10, machine.root()).private_bytes, std::nullopt);
  machine.add_process(6, 10, "pt_data_worker", kTrain, 0);  // has ended
  EXPECT_EQ(read_worker_memory(10, machine.root()).count, 3U);
  EXPECT_EQ(read_worker_memory(10, machine.root()).private_bytes, 3 * (65U << 10));
}

std::int64_t g_now_ns = 0;
std::int64_t reading_takes_1_ms() { return g_now_ns += 1'000'000; }

TEST(WorkerProbe, reads_at_most_2_percent_of_the_time) {
  const FakeMachine machine;
  add_family(machine, ::getpid());
  WorkerProbe probe(machine.root());
  g_now_ns = 0;
  EXPECT_EQ(probe.read(reading_takes_1_ms).count, 3U);  // until 2 ms
  machine.add_process(7, ::getpid(), "pt_data_worker", kTrain, 900);
  machine.add_pss(7, 200);
  g_now_ns = 50'000'000;
  EXPECT_EQ(probe.read(reading_takes_1_ms).count, 3U);
  g_now_ns = 52'000'000;
  EXPECT_EQ(probe.read(reading_takes_1_ms).count, 4U);
}

TEST(WorkerMemory, of_a_real_fork_excludes_pages_that_it_shares_with_its_parent) {
  constexpr std::size_t kShared = 64 << 20;
  constexpr std::size_t kPrivate = 8 << 20;
  const auto map = [](std::size_t bytes) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  void* const shared = map(kShared);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 1, kShared);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::memset(map(kPrivate), 1, kPrivate);
    const bool is_reported = ::write(ready[1], "!", 1) == 1;
    if (is_reported) ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const WorkerMemory workers = read_worker_memory(::getpid());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  ::munmap(shared, kShared);
  EXPECT_EQ(workers.count, 1U);
  ASSERT_TRUE(workers.private_bytes);
  EXPECT_GE(*workers.private_bytes, kPrivate);
  EXPECT_LT(*workers.private_bytes, kShared);
}

}  // namespace
}  // namespace plimsoll::probes
