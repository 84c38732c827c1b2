#include "base/quiet_writing.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/output_file.h"

namespace plimsoll::base {
namespace {

// Runs `body` in a child in which both signals have their default action. Returns its result, or
// 128 plus the number of the signal that ended it.
template <typename Body>
int status_of(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The write end of a pipe that is never read.
int unread_pipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  close(ends[0]);
  return ends[1];
}

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(QuietWriting, a_failing_write_raises_no_signal) {
  EXPECT_EQ(status_of([] {
              const int file = unread_pipe();
              const QuietWriting quiet;
              return write(file, "x", 1) < 0 && errno == EPIPE ? 0 : 1;
            }),
            0);
  EXPECT_EQ(status_of([] {
              char path[] = "/tmp/plimsoll-limit-XXXXXX";
              const int file = mkstemp(path);
              unlink(path);
              const rlimit none{0, 0};
              setrlimit(RLIMIT_FSIZE, &none);
              const QuietWriting quiet;
              return write(file, "x", 1) < 0 && errno == EFBIG ? 0 : 1;
            }),
            0);
}

TEST(QuietWriting, the_programs_signals_are_restored_afterwards) {
  EXPECT_EQ(status_of([] {
              const int file = unread_pipe();
              {
                const QuietWriting quiet;
                if (write(file, "x", 1) >= 0) return 1;
              }
              if (is_blocked(SIGPIPE) || is_blocked(SIGXFSZ)) return 2;
              return write(file, "x", 1) < 0 ? 3 : 4;
            }),
            128 + SIGPIPE);
}

TEST(QuietWriting, a_signal_that_was_pending_stays_pending) {
  EXPECT_EQ(status_of([] {
              sigset_t pipe;
              sigemptyset(&pipe);
              sigaddset(&pipe, SIGPIPE);
              pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
              raise(SIGPIPE);
              {
                const QuietWriting outer;
                const QuietWriting inner;
                if (write(unread_pipe(), "x", 1) >= 0) return 1;
              }
              sigset_t pending;
              sigpending(&pending);
              return sigismember(&pending, SIGPIPE) == 1 && is_blocked(SIGPIPE) ? 0 : 2;
            }),
            0);
}

TEST(QuietWriting, keeps_errno) {
  errno = EDOM;
  {
    const QuietWriting quiet;
  }
  EXPECT_EQ(errno, EDOM);
}

TEST(WriteToStderr, a_full_pipe_loses_only_the_line) {
  EXPECT_EQ(status_of([] {
              dup2(unread_pipe(), STDERR_FILENO);
              write_to_stderr("plimsoll: unread\n");
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace plimsoll::base
