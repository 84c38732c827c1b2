// Files that are written while a program runs: whole buffers, through interruptions, and never a
// signal of ours in the host's program (a full pipe's SIGPIPE, a file limit's SIGXFSZ).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace plimsoll::base {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile() { close(); }

  // Each gives 0 or the errno.
  int open(const char* path) noexcept;           // follows links; creates nothing
  int open_unlinked(const char* path) noexcept;  // the same; ELOOP for a symbolic link
  int create(const char* path) noexcept;         // EEXIST where there is one, or a link
  // A regular file that has no name until publish(); EOPNOTSUPP where the file system has none.
  int create_unnamed(const char* folder) noexcept;
  int publish(const char* path) noexcept;  // EEXIST as create()
  // For this open file alone, until it is closed. EWOULDBLOCK: another one has it.
  int lock() noexcept;
  void unlock() noexcept;  // in forked children that have not closed it yet, too
  // All of it. After a failure a regular file ends where the last whole write() ended. EBADF if the
  // program has closed the file, and nothing is written to what has its number now.
  int write(std::span<const std::byte> bytes) noexcept;
  // Over what is there already.
  int overwrite(std::int64_t offset, std::span<const std::byte> bytes) noexcept;
  int close() noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  bool is_regular() const noexcept { return is_regular_; }
  std::int64_t size_bytes() const noexcept;  // 0 for what is no regular file
  // The bytes at its beginning; fewer where there are no more, or none may be read.
  std::size_t read_head(std::span<std::byte> head) const noexcept;
  bool is_at(const char* path) const noexcept;  // and not only reached through a link

 private:
  int open_as(const char* path, int flags) noexcept;
  int know_file() noexcept;
  bool has_number() const noexcept;

  int fd_ = -1;
  bool is_regular_ = false;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::int64_t written_bytes_ = 0;
};

// A descriptor to write to what exists, such as a device; -1 with errno where there is none. A pipe
// gets 5 seconds to find a reader: ENXIO where it finds none.
int open_existing(const char* path) noexcept;

// For a line that nobody waits for: nothing where stderr has no room for it now.
void write_to_stderr(std::string_view line) noexcept;

}  // namespace plimsoll::base
