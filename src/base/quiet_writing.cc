#include "base/quiet_writing.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace plimsoll::base {
namespace {

constexpr std::array kSignals = {SIGPIPE, SIGXFSZ};

// Bits of the state for the first signal; the second signal uses the next two.
constexpr int kWasPending = 1;
constexpr int kWasBlocked = 2;

int bit(int flag, std::size_t index) { return flag << (2 * index); }

sigset_t only(int signal) noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

// Discards a pending signal. Never blocks, because another thread may have taken it already.
void discard(int signal) noexcept {
  const sigset_t set = only(signal);
  constexpr timespec kNoTime{};
  while (sigtimedwait(&set, nullptr, &kNoTime) < 0 && errno == EINTR) {
  }
}

}  // namespace

int QuietWriting::begin() noexcept {
  const int error = errno;
  sigset_t signals;
  sigset_t pending;
  sigset_t before;
  sigemptyset(&signals);
  for (const int signal : kSignals) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  sigpending(&pending);
  int state = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (sigismember(&pending, kSignals[i]) == 1) state |= bit(kWasPending, i);
    if (sigismember(&before, kSignals[i]) == 1) state |= bit(kWasBlocked, i);
  }
  errno = error;
  return state;
}

void QuietWriting::end(int state) noexcept {
  const int error = errno;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if ((state & bit(kWasPending, i)) == 0) discard(kSignals[i]);
    const sigset_t set = only(kSignals[i]);
    if ((state & bit(kWasBlocked, i)) == 0) pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  errno = error;
}

}  // namespace plimsoll::base
