#include "cli/interruption.h"

#include <csignal>

namespace plimsoll::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interruption(int /*signal*/) { interrupted = 1; }

}  // namespace

void watch_for_interruption() {
  struct sigaction before{};
  if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action{};
  action.sa_handler = note_interruption;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() { return interrupted != 0; }

}  // namespace plimsoll::cli
