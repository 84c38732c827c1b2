#include "base/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/quiet_writing.h"

namespace plimsoll::base {
namespace {

// Waits at most 5 seconds.
constexpr int kReaderTries = 250;
constexpr long kReaderPauseNs = 20'000'000;

// Duplicates the descriptor to a high number, because the program may rely on getting the lowest
// free number for the next file it opens. If the process's limit is too low for that, it at least
// avoids 0, 1 and 2, or the program's own output would end up in the file.
constexpr int kFirstNumber = 512;

int with_high_number(int file) noexcept {
  if (file < 0) return file;
  const FileIdentity identity = FileIdentity::of(file);
  int higher = fcntl(file, F_DUPFD_CLOEXEC, kFirstNumber);
  if (higher < 0 && file > STDERR_FILENO) return file;
  if (higher < 0) higher = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close_if_unchanged(file, identity);
  errno = error;
  return higher;
}

constexpr mode_t kFileMode = 0600;  // a trace names files, functions and the command

}  // namespace

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  is_regular_ = other.is_regular_;
  identity_ = other.identity_;
  written_bytes_ = other.written_bytes_;
  return *this;
}

int OutputFile::open(const char* path) noexcept {
  close();
  fd_ = open_existing(path);
  return fd_ < 0 ? errno : know_file();
}

int OutputFile::open_unlinked(const char* path) noexcept {
  return open_as(path, O_RDWR | O_NOFOLLOW);
}

int OutputFile::create(const char* path) noexcept {
  return open_as(path, O_RDWR | O_CREAT | O_EXCL);
}

int OutputFile::create_unnamed(const char* folder) noexcept {
  return open_as(folder, O_WRONLY | O_TMPFILE);
}

int OutputFile::publish(const char* path) noexcept {
  char own[32];
  std::snprintf(own, sizeof own, "/proc/self/fd/%d", fd_);
  return linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

int OutputFile::open_as(const char* path, int flags) noexcept {
  close();
  do {
    fd_ = with_high_number(::open(path, flags | O_CLOEXEC | O_NOCTTY, kFileMode));
  } while (fd_ < 0 && errno == EINTR);
  return fd_ < 0 ? errno : know_file();
}

int OutputFile::know_file() noexcept {
  struct stat status{};
  if (fstat(fd_, &status) != 0) return errno;
  is_regular_ = S_ISREG(status.st_mode);
  identity_ = FileIdentity(status);
  written_bytes_ = 0;
  return 0;
}

int OutputFile::lock() noexcept {
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void OutputFile::unlock() noexcept {
  if (fd_ >= 0 && has_number()) flock(fd_, LOCK_UN);
}

bool OutputFile::has_number() const noexcept { return identity_ == FileIdentity::of(fd_); }

std::int64_t OutputFile::size_bytes() const noexcept {
  struct stat status{};
  return is_regular_ && fstat(fd_, &status) == 0 ? std::int64_t{status.st_size} : 0;
}

std::size_t OutputFile::read_head(std::span<std::byte> head) const noexcept {
  if (!has_number()) return 0;
  const ssize_t count = pread(fd_, head.data(), head.size(), 0);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

bool OutputFile::is_at(const char* path) const noexcept {
  struct stat status{};
  return lstat(path, &status) == 0 && identity_ == FileIdentity(status);
}

int OutputFile::write(std::span<const std::byte> bytes) noexcept {
  if (!has_number()) return EBADF;
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
    // A partial block is useless. If it cannot be truncated, readers skip it.
    if (is_regular_ && ftruncate(fd_, written_bytes_) != 0) return error;
    return error;
  }
  written_bytes_ += size;
  return 0;
}

int OutputFile::overwrite(std::int64_t offset, std::span<const std::byte> bytes) noexcept {
  if (!has_number()) return EBADF;
  const QuietWriting quiet;
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return 0;
}

int OutputFile::close() noexcept {
  if (fd_ < 0) return 0;
  if (!has_number()) {
    fd_ = -1;
    return EBADF;
  }
  const int error = ::close(fd_) == 0 || errno == EINTR ? 0 : errno;
  fd_ = -1;
  return error;
}

void write_to_stderr(std::string_view line) noexcept {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  const QuietWriting quiet;
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

int open_existing(const char* path) noexcept {
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  int file = ::open(path, kFlags);
  for (int i = 0; file < 0 && (errno == ENXIO || errno == EINTR) && i < kReaderTries; ++i) {
    const timespec pause{.tv_sec = 0, .tv_nsec = kReaderPauseNs};
    nanosleep(&pause, nullptr);
    file = ::open(path, kFlags);
  }
  if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return with_high_number(file);
}

}  // namespace plimsoll::base
