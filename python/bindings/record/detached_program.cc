// Starts a program that is no child of this process, so that its end sends no SIGCHLD, leaves no
// zombie, and wakes no wait() of the user's program.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <vector>

#include "bind.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

struct Program {
  std::vector<char*> words;
  std::vector<char*> environment;
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  int error = 0;
};

std::vector<char*> pointers(const std::vector<nb::bytes>& texts) {
  std::vector<char*> all;
  for (const nb::bytes& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Runs in a short-lived process that shares our memory while we wait for it.
int start(void* data) {
  auto& program = *static_cast<Program*>(data);
  pid_t started = 0;
  program.error = posix_spawn(&started, program.words.front(), &program.files, &program.attributes,
                              program.words.data(), program.environment.data());
  return 0;
}

// Without a signal among clone's flags, the end of the process in between sends none. It is waited
// for here, and what it has started has no parent then.
int start_detached(Program& program) {
  alignas(16) static std::array<std::byte, 1 << 16> stack;  // guarded by the GIL
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the program runs in that process
  const pid_t between = clone(start, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK,
                              static_cast<void*>(&program));
  const int error = between < 0 ? errno : 0;
  if (between > 0) {
    while (waitpid(between, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error != 0 ? error : program.error;
}

int start_detached(const std::vector<nb::bytes>& words, const std::vector<nb::bytes>& environment,
                   int out, int log) {
  Program program{.words = pointers(words), .environment = pointers(environment)};
  posix_spawn_file_actions_init(&program.files);
  posix_spawn_file_actions_addopen(&program.files, STDIN_FILENO, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&program.files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&program.files, log, STDERR_FILENO);
  sigset_t none, usual;
  sigemptyset(&none);
  sigfillset(&usual);
  posix_spawnattr_init(&program.attributes);
  posix_spawnattr_setsigmask(&program.attributes, &none);
  posix_spawnattr_setsigdefault(&program.attributes, &usual);
  posix_spawnattr_setflags(&program.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = start_detached(program);
  posix_spawnattr_destroy(&program.attributes);
  posix_spawn_file_actions_destroy(&program.files);
  return error;
}

}  // namespace

void bind_detached_program(nb::module_& module) {
  module.def(
      "start_detached",
      [](const std::vector<nb::bytes>& words, const std::vector<nb::bytes>& environment, int out,
         int log) { return start_detached(words, environment, out, log); },
      nb::arg("words"), nb::arg("environment"), nb::arg("out"), nb::arg("log"),
      "Start a program in a session of its own; return 0 or an errno. It is no child of this "
      "process: its end sends no signal. `out` and `log` become its stdout and stderr.");
}

}  // namespace plimsoll::python
