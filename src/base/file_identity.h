// Which file a descriptor is. A program may close descriptors that it did not open, as
// os.closerange() does, and the number may then belong to one of the program's own files: every
// descriptor that is used or closed later, or on another thread, is compared first.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace plimsoll::base {

class FileIdentity {
 public:
  FileIdentity() = default;
  explicit FileIdentity(const struct stat& status) noexcept
      : device_(std::uint64_t{status.st_dev}),
        inode_(std::uint64_t{status.st_ino}),
        is_known_(true) {}
  // Unknown for a closed descriptor.
  static FileIdentity of(int descriptor) noexcept {
    struct stat status{};
    return ::fstat(descriptor, &status) == 0 ? FileIdentity(status) : FileIdentity();
  }
  // Unknown files are never equal.
  friend bool operator==(const FileIdentity& left, const FileIdentity& right) noexcept {
    return left.is_known_ && right.is_known_ && left.device_ == right.device_ &&
           left.inode_ == right.inode_;
  }

 private:
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  bool is_known_ = false;
};

// Closes the descriptor if it still is that file.
inline void close_if_unchanged(int descriptor, const FileIdentity& identity) noexcept {
  if (FileIdentity::of(descriptor) == identity) ::close(descriptor);
}

}  // namespace plimsoll::base
