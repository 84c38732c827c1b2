#include "cli/runs/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern char** environ;

namespace plimsoll::cli {
namespace {

constexpr std::size_t kMostBytes = 16 << 20;

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Error cannot_start(const std::string& name, int number) {
  return make_error(ErrorCode::kInvalidArgument,
                    "cannot start " + name + ": " + std::strerror(number));
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// This process ignores SIGPIPE, which the child must not inherit. Signals that our parent ignores
// stay ignored.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// `actions` may be null.
Result<pid_t> start(const std::vector<std::string>& words,
                    const posix_spawn_file_actions_t* actions) {
  const SpawnAttributes attributes;
  std::vector<char*> pointers = pointers_to(words);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, pointers.front(), actions, attributes.get(), pointers.data(), environ);
  if (error != 0) return cannot_start(words.front(), error);
  return child;
}

// The child that receives our signals; 0 until it starts. Signals that arrive earlier are forwarded
// when it starts.
std::atomic<pid_t> successor{0};
std::atomic<int> early_signal{0};
// The last signal that asks a program to end; 0 if none has arrived.
std::atomic<int> end_signal{0};

void pass_on(int number, siginfo_t* reported, void*) {
  const int error = errno;
  const bool is_of_terminal = reported != nullptr && reported->si_code > 0;
  const pid_t child = successor.load();
  if (number != SIGUSR1 && number != SIGUSR2) end_signal.store(number);
  if (child == 0) {
    early_signal.store(number);
  } else if (!is_of_terminal) {
    ::kill(child, number);
  }
  errno = error;
}

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// Forwards signals while it exists.
class ForwardedSignals {
 public:
  ForwardedSignals() {
    successor.store(0);
    early_signal.store(0);
    end_signal.store(0);
    struct sigaction action{};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kPassedOn[i], &action, nullptr);
    }
  }
  ForwardedSignals(const ForwardedSignals&) = delete;
  ForwardedSignals& operator=(const ForwardedSignals&) = delete;
  ~ForwardedSignals() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      ::sigaction(kPassedOn[i], &before_[i], nullptr);
    }
  }
  void to(pid_t child) {
    successor.store(child);
    if (const int number = early_signal.exchange(0); number != 0) ::kill(child, number);
  }
  bool has_asked_to_end() const { return end_signal.load() != 0; }

 private:
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

Result<int> run_until_interrupted(const std::vector<std::string>& words, FileActions& actions) {
  ForwardedSignals signals;
  PLIMSOLL_TRY_ASSIGN(const pid_t child, start(words, actions.get()));
  signals.to(child);
  const int status = wait_for(child);
  if (signals.has_asked_to_end()) return make_error(ErrorCode::kInterrupted, "interrupted");
  return status;
}

void read_some(pollfd& from, std::string& to) {
  if (from.fd < 0 || from.revents == 0) return;
  std::array<char, 65536> part;
  const ssize_t size = ::read(from.fd, part.data(), part.size());
  if (size <= 0) {
    if (size < 0 && errno == EINTR) return;
    from.fd = -1;  // poll() skips it
    return;
  }
  const std::size_t room = kMostBytes - to.size();
  to.append(part.data(), std::min(static_cast<std::size_t>(size), room));
}

void read_both(int out, int errors, ProgramOutput& to) {
  std::array<pollfd, 2> pipes = {pollfd{out, POLLIN, 0}, pollfd{errors, POLLIN, 0}};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    if (::poll(pipes.data(), pipes.size(), -1) < 0 && errno != EINTR) return;
    read_some(pipes[0], to.out);
    read_some(pipes[1], to.errors);
    for (pollfd& pipe : pipes) pipe.revents = 0;
  }
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& words) {
  PLIMSOLL_TRY_ASSIGN(const pid_t child, start(words, nullptr));
  return wait_for(child);
}

Result<int> run_with_output_on_stderr(const std::vector<std::string>& words,
                                      const std::string& folder) {
  FileActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
  return run_until_interrupted(words, actions);
}

Result<int> run_with_files(const std::vector<std::string>& words, const ProgramFiles& files) {
  constexpr int kWritten = O_WRONLY | O_CREAT | O_TRUNC;
  FileActions actions;
  posix_spawn_file_actions_t* const added = actions.get();
  posix_spawn_file_actions_addopen(added, STDIN_FILENO, files.in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(added, STDOUT_FILENO, files.out.c_str(), kWritten, 0600);
  posix_spawn_file_actions_addopen(added, STDERR_FILENO, files.errors.c_str(), kWritten, 0600);
  return run_until_interrupted(words, actions);
}

Result<int> run_and_forward_signals(const std::vector<std::string>& words) {
  ForwardedSignals signals;
  PLIMSOLL_TRY_ASSIGN(const pid_t child, start(words, nullptr));
  signals.to(child);
  return wait_for(child);
}

Result<ProgramOutput> read_program(const std::vector<std::string>& words) {
  std::array<int, 2> out{};
  std::array<int, 2> errors{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return cannot_start(words.front(), errno);
  if (::pipe2(errors.data(), O_CLOEXEC) != 0) {
    const int number = errno;
    for (const int fd : out) ::close(fd);
    return cannot_start(words.front(), number);
  }
  FileActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions.get(), errors[1], STDERR_FILENO);
  std::vector<std::string> with_locale = {"env", "LC_ALL=C"};
  with_locale.insert(with_locale.end(), words.begin(), words.end());
  const Result<pid_t> child = start(with_locale, actions.get());
  ::close(out[1]);
  ::close(errors[1]);
  ProgramOutput reported;
  if (child) {
    read_both(out[0], errors[0], reported);
    reported.status = wait_for(*child);
  }
  ::close(out[0]);
  ::close(errors[0]);
  if (!child) return child.error();
  return reported;
}

std::string shell_line(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char letter : word) line += letter == '\'' ? "'\\''" : std::string(1, letter);
    line += '\'';
  }
  return line;
}

bool is_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::string folder(rest.substr(0, rest.find(':')));
    const std::string full = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(full.c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
  }
  return false;
}

}  // namespace plimsoll::cli
