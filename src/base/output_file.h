// Files that are written while a program runs: whole buffers, through interruptions, and never a
// signal of ours in the host's program (a full pipe's SIGPIPE, a file limit's SIGXFSZ).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::base {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { close(); }

  // Opens or makes the file, as it is; empty() follows. 0 or the errno.
  int open(const char* path) noexcept;
  // Makes the file; EEXIST where there is one.
  int create(const char* path) noexcept;
  // Takes away what a regular file holds.
  int empty() noexcept;
  // All of it. After a failure a regular file ends where the last whole write() ended.
  int write(std::span<const std::byte> bytes) noexcept;
  int close() noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  bool is_regular() const noexcept { return is_regular_; }
  bool is_same_as(const OutputFile& other) const noexcept {
    return is_open() && other.is_open() && is_regular_ && device_ == other.device_ &&
           inode_ == other.inode_;
  }

 private:
  int open_as(const char* path, int how) noexcept;

  int fd_ = -1;
  bool is_regular_ = false;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::int64_t written_bytes_ = 0;
};

// Puts a whole file in place of another one at once, by way of a temporary file beside it. What is
// no regular file (a pipe, a device) is written to as it is. 0 or the errno.
int replace_file(const std::string& path, std::span<const std::byte> bytes) noexcept;

// The file behind a chain of symbolic links, or the path itself.
std::string without_links(const char* path);

}  // namespace plimsoll::base
