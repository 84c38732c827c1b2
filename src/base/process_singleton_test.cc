#include "base/process_singleton.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

struct Counter {
  std::mutex mutex;
  int count = 0;
};

int exit_status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessSingleton, is_the_same_object_throughout_a_process) {
  Counter& counter = process_singleton<Counter>();
  EXPECT_EQ(&process_singleton<Counter>(), &counter);
}

TEST(ProcessSingleton, is_new_and_unlocked_in_a_child_whose_parent_held_the_lock) {
  Counter& counter = process_singleton<Counter>();
  std::unique_lock lock(counter.mutex);
  counter.count = 7;
  const pid_t child = fork();
  if (child == 0) {
    Counter& own = process_singleton<Counter>();
    _exit(own.mutex.try_lock() && own.count == 0 ? 0 : 1);
  }
  EXPECT_EQ(exit_status_of(child), 0);
  EXPECT_EQ(counter.count, 7) << "the parent's is as it was";
}

// Checking the process id at each use would let two threads replace the object.
TEST(ProcessSingleton, keeps_the_writes_of_all_threads_of_a_child) {
  process_singleton<Counter>();
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kThreads = 8, kRounds = 200;
    std::atomic<bool> is_begun{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        while (!is_begun.load()) std::this_thread::yield();
        for (int round = 0; round < kRounds; ++round) {
          Counter& counter = process_singleton<Counter>();
          const std::lock_guard lock(counter.mutex);
          ++counter.count;
        }
      });
    }
    is_begun = true;
    for (std::thread& thread : threads) thread.join();
    _exit(process_singleton<Counter>().count == kThreads * kRounds ? 0 : 1);
  }
  EXPECT_EQ(exit_status_of(child), 0);
}

}  // namespace
}  // namespace plimsoll::base
