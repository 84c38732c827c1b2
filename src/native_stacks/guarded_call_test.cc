#include "native_stacks/guarded_call.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace plimsoll::native_stacks {
namespace {

int recurse(volatile int* depth) {
  volatile char frame[4096];
  frame[0] = 1;
  *depth = *depth + 1;
  return *depth > 0 ? recurse(depth) + frame[0] : 0;
}

TEST(GuardedCall, has_results_in_this_process) {
  int number = 1;
  EXPECT_TRUE(call_guarded([](void* to) noexcept { ++*static_cast<int*>(to); }, &number));
  EXPECT_EQ(number, 2);
}

TEST(GuardedCall, a_crash_ends_only_the_call) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGKILL}) {
    int to_raise = signal;
    EXPECT_FALSE(call_guarded([](void* of) noexcept { ::kill(::getpid(), *static_cast<int*>(of)); },
                              &to_raise));
  }
  volatile int depth = 0;
  EXPECT_FALSE(call_guarded([](void* of) noexcept { recurse(static_cast<volatile int*>(of)); },
                            const_cast<int*>(&depth)));
  EXPECT_GT(depth, 100);
}

TEST(GuardedCall, a_call_without_end_is_ended) {
  volatile bool is_endless = true;
  EXPECT_FALSE(call_guarded(
      [](void* of) noexcept {
        while (*static_cast<volatile bool*>(of)) {
        }
      },
      const_cast<bool*>(&is_endless)));
}

TEST(GuardedCall, leaves_the_programs_signals_alone) {
  static int count = 0;
  const auto before = ::signal(SIGUSR1, [](int /*signal*/) { ++count; });
  EXPECT_TRUE(call_guarded([](void*) noexcept { ::kill(::getpid(), SIGUSR1); }, nullptr));
  EXPECT_EQ(count, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(count, 1);
  ::signal(SIGUSR1, before);
}

TEST(GuardedCall, no_wait_of_the_program_sees_it) {
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    while (!is_over) {
      EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
      EXPECT_EQ(errno, ECHILD);
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(call_guarded([](void*) noexcept {}, nullptr));
  is_over = true;
  waits.join();
}

}  // namespace
}  // namespace plimsoll::native_stacks
