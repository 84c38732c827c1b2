#include "native_stacks/guarded_call.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

// Exists if ThreadSanitizer does.
extern "C" [[gnu::weak]] void thread_sanitizer_init() __asm__("__tsan_init");

namespace plimsoll::native_stacks {
namespace {

constexpr int kMostSeconds = 1;  // of CPU time
constexpr std::size_t kStackBytes = 1u << 20;
constexpr std::size_t kSignalStackBytes = 1u << 16;
// SIGSYS first: a seccomp filter may raise it for any of the calls below, and its handler is the
// program's until then.
constexpr std::array kFatal = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};

struct GuardedCall {
  void (*body)(void* argument) noexcept;
  void* argument;
  std::byte* signal_stack;
  std::atomic<bool> has_returned{false};
};

void leave(int /*signal*/) { ::_exit(1); }

// By the system call: sigaction() of a preloaded library or of a sanitizer notes the handler in
// memory, which this process shares with the program.
void leave_on(int signal) {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();  // required on x86-64; not called, since the handler does not return
    std::uint64_t mask;
  } action{.handler = leave, .flags = SA_ONSTACK, .restorer = nullptr, .mask = 0};
#ifdef __x86_64__
  constexpr unsigned long kHasRestorer = 0x04000000;  // SA_RESTORER of <asm/signal.h>
  action.flags |= kHasRestorer;
  action.restorer = +[] { ::_exit(1); };
#endif
  ::syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
}

// This process has its own signal handlers and mask; it shares memory and open files.
int run_guarded(void* of) {
  GuardedCall& call = *static_cast<GuardedCall*>(of);
  sigset_t fatal;
  sigemptyset(&fatal);
  for (const int signal : kFatal) {
    leave_on(signal);
    sigaddset(&fatal, signal);
  }
  // After a stack overflow, only an alternate stack has room for a handler.
  const stack_t stack{.ss_sp = call.signal_stack, .ss_flags = 0, .ss_size = kSignalStackBytes};
  ::sigaltstack(&stack, nullptr);
  ::sigprocmask(SIG_UNBLOCK, &fatal, nullptr);
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kMostSeconds, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  call.body(call.argument);
  call.has_returned.store(true, std::memory_order_release);  // pairs with call_guarded()
  return 0;
}

}  // namespace

bool can_guard_calls() noexcept { return &thread_sanitizer_init == nullptr; }

CallResult call_guarded(void (*body)(void* argument) noexcept, void* argument) noexcept {
  if (!can_guard_calls()) return CallResult::kNotStarted;
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size_bytes = page_bytes + kStackBytes + kSignalStackBytes;
  void* const memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CallResult::kNotStarted;
  auto* const guard_page = static_cast<std::byte*>(memory);
  ::mprotect(guard_page, page_bytes, PROT_NONE);
  std::byte* const top = guard_page + page_bytes + kStackBytes;
  GuardedCall call{.body = body, .argument = argument, .signal_stack = top};

  // The program's handlers must not run in both processes. A blocked SIGSYS, which a seccomp filter
  // raises for clone(), would end the program even if it has a handler.
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSYS);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const pid_t process = ::clone(run_guarded, top, CLONE_VM | CLONE_FS | CLONE_FILES, &call);
  while (process > 0 && ::waitpid(process, nullptr, static_cast<int>(__WCLONE)) < 0 &&
         errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::munmap(memory, size_bytes);
  if (process <= 0) return CallResult::kNotStarted;
  return call.has_returned.load(std::memory_order_acquire) ? CallResult::kReturned
                                                           : CallResult::kEnded;
}

}  // namespace plimsoll::native_stacks
