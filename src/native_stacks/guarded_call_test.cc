#include "native_stacks/guarded_call.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "tests/support/seccomp_filter.h"

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
  EXPECT_EQ(call_guarded([](void* to) noexcept { ++*static_cast<int*>(to); }, &number),
            CallResult::kReturned);
  EXPECT_EQ(number, 2);
}

TEST(GuardedCall, a_crash_ends_only_the_call) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGSYS, SIGKILL}) {
    int to_raise = signal;
    EXPECT_EQ(call_guarded([](void* of) noexcept { ::kill(::getpid(), *static_cast<int*>(of)); },
                           &to_raise),
              CallResult::kEnded);
  }
  volatile int depth = 0;
  EXPECT_EQ(call_guarded([](void* of) noexcept { recurse(static_cast<volatile int*>(of)); },
                         const_cast<int*>(&depth)),
            CallResult::kEnded);
  EXPECT_GT(depth, 100);
}

TEST(GuardedCall, a_call_without_end_is_ended) {
  volatile bool is_endless = true;
  EXPECT_EQ(call_guarded(
                [](void* of) noexcept {
                  while (*static_cast<volatile bool*>(of)) {
                  }
                },
                const_cast<bool*>(&is_endless)),
            CallResult::kEnded);
}

TEST(GuardedCall, a_process_that_cannot_be_started_is_not_a_crash) {
  EXPECT_EXIT(
      {
        tests::add_seccomp_filter(SECCOMP_RET_ERRNO | EAGAIN);
        const CallResult result = call_guarded([](void*) noexcept {}, nullptr);
        ::_exit(result == CallResult::kNotStarted ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(GuardedCall, a_handler_of_sigsys_sees_the_forbidden_call) {
  EXPECT_EXIT(
      {
        static volatile std::sig_atomic_t count = 0;
        ::signal(SIGSYS, [](int /*signal*/) { count = count + 1; });
        tests::add_seccomp_filter(SECCOMP_RET_TRAP);
        call_guarded([](void*) noexcept {}, nullptr);
        ::_exit(count == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(GuardedCall, leaves_the_programs_signals_alone) {
  static int count = 0;
  const auto before = ::signal(SIGUSR1, [](int /*signal*/) { ++count; });
  EXPECT_EQ(call_guarded([](void*) noexcept { ::kill(::getpid(), SIGUSR1); }, nullptr),
            CallResult::kReturned);
  EXPECT_EQ(count, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(count, 1);
  ::signal(SIGUSR1, before);
}

TEST(GuardedCall, waitpid_of_the_program_does_not_see_it) {
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    while (!is_over) {
      EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
      EXPECT_EQ(errno, ECHILD);
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(call_guarded([](void*) noexcept {}, nullptr), CallResult::kReturned);
  }
  is_over = true;
  waits.join();
}

}  // namespace
}  // namespace plimsoll::native_stacks
