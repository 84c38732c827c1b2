// Files that are written while a program runs. Writes whole buffers, continues after interruptions,
// and never raises a signal in the host program (SIGPIPE from a closed pipe, SIGXFSZ from a file
// limit).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/file_identity.h"

namespace plimsoll::base {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile() { close(); }

  // These return 0 or an errno.
  int open(const char* path) noexcept;           // follows links; creates nothing
  int open_unlinked(const char* path) noexcept;  // the same; ELOOP for a symbolic link
  int create(const char* path) noexcept;         // EEXIST if there is a file or a link
  // A regular file without a name until publish(); EOPNOTSUPP if the file system lacks support.
  int create_unnamed(const char* folder) noexcept;
  int publish(const char* path) noexcept;  // EEXIST as for create()
  // Locks this open file until it is closed. EWOULDBLOCK: another process has the lock.
  int lock() noexcept;
  void unlock() noexcept;  // also in forked children that still have it open
  // Writes all bytes. After a failure a regular file ends where the last complete write() ended.
  // Returns EBADF if the program closed the descriptor; nothing is then written to the file that
  // has the same descriptor number now.
  int write(std::span<const std::byte> bytes) noexcept;
  // Overwrites existing bytes.
  int overwrite(std::int64_t offset, std::span<const std::byte> bytes) noexcept;
  int close() noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  bool is_regular() const noexcept { return is_regular_; }
  std::int64_t size_bytes() const noexcept;  // 0 unless it is a regular file
  // The first bytes of the file; fewer if the file is shorter or may not be read.
  std::size_t read_head(std::span<std::byte> head) const noexcept;
  bool is_at(const char* path) const noexcept;  // false if it is only reached through a link

 private:
  int open_as(const char* path, int flags) noexcept;
  int know_file() noexcept;
  bool has_number() const noexcept;

  int fd_ = -1;
  bool is_regular_ = false;
  FileIdentity identity_;
  std::int64_t written_bytes_ = 0;
};

// Opens something that exists, such as a device, for writing. Returns a descriptor, or -1 with
// errno. A pipe without a reader is retried for 5 seconds, then fails with ENXIO.
int open_existing(const char* path) noexcept;

// Writes a line that may be lost: only if stderr accepts it immediately.
void write_to_stderr(std::string_view line) noexcept;

}  // namespace plimsoll::base
