#include "base/output_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace plimsoll::base {
namespace {

// Holds back the signals that a failing write sends to its thread, and swallows those it caused.
class QuietWriting {
 public:
  QuietWriting() noexcept {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    had_pipe_ = sigismember(&pending, SIGPIPE) == 1;
    had_limit_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  QuietWriting(const QuietWriting&) = delete;
  QuietWriting& operator=(const QuietWriting&) = delete;
  ~QuietWriting() {
    if (!had_pipe_) swallow(SIGPIPE);
    if (!had_limit_) swallow(SIGXFSZ);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static void swallow(int signal) noexcept {
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, signal) != 1) return;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    int taken = 0;
    sigwait(&one, &taken);
  }

  sigset_t signals_{};
  sigset_t before_{};
  bool had_pipe_ = false;
  bool had_limit_ = false;
};

constexpr mode_t kFileMode = 0666;  // the process's umask takes away from it

}  // namespace

int OutputFile::open(const char* path) noexcept { return open_as(path, 0); }

int OutputFile::create(const char* path) noexcept { return open_as(path, O_EXCL); }

int OutputFile::open_as(const char* path, int how) noexcept {
  do {
    fd_ = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | how, kFileMode);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) return errno;
  struct stat status{};
  if (fstat(fd_, &status) != 0) return errno;
  is_regular_ = S_ISREG(status.st_mode);
  device_ = static_cast<std::uint64_t>(status.st_dev);
  inode_ = static_cast<std::uint64_t>(status.st_ino);
  written_bytes_ = 0;
  return 0;
}

int OutputFile::empty() noexcept {
  if (!is_regular_) return 0;
  return ftruncate(fd_, 0) == 0 ? 0 : errno;
}

int OutputFile::write(std::span<const std::byte> bytes) noexcept {
  const QuietWriting quiet;
  const auto size = static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    const int error = count < 0 ? errno : EIO;
    // The half of a block is of no use to anyone. If it cannot be taken back, readers pass over it.
    if (is_regular_ && ftruncate(fd_, written_bytes_) != 0) return error;
    return error;
  }
  written_bytes_ += size;
  return 0;
}

int OutputFile::close() noexcept {
  if (fd_ < 0) return 0;
  const int error = ::close(fd_) == 0 || errno == EINTR ? 0 : errno;
  fd_ = -1;
  return error;
}

int replace_file(const std::string& path, std::span<const std::byte> bytes) noexcept try {
  struct stat status{};
  const bool is_there = stat(path.c_str(), &status) == 0;
  OutputFile file;
  if (is_there && !S_ISREG(status.st_mode)) {
    int error = file.open(path.c_str());
    if (error == 0) error = file.write(bytes);
    const int close_error = file.close();
    return error != 0 ? error : close_error;
  }
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  int error = file.open(temporary.c_str());
  if (error == 0) error = file.empty();
  if (error == 0) error = file.write(bytes);
  const int close_error = file.close();
  if (error == 0) error = close_error;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
} catch (...) {
  return ENOMEM;
}

std::string without_links(const char* path) {
  char* const resolved = realpath(path, nullptr);
  if (resolved == nullptr) return path;
  std::string result(resolved);
  std::free(resolved);
  return result;
}

}  // namespace plimsoll::base
