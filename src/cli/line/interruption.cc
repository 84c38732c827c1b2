#include "cli/line/interruption.h"

#include <csignal>

namespace plimsoll::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interruption(int /*signal*/) { interrupted = 1; }

void watch_for(int signal) {
  struct sigaction before{};
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action{};
  action.sa_handler = note_interruption;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_for_interruption() { watch_for(SIGINT); }

void watch_for_termination() {
  watch_for(SIGTERM);
  watch_for(SIGHUP);
}

bool is_interrupted() { return interrupted != 0; }

}  // namespace plimsoll::cli
