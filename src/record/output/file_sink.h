// The file of a recording. A recording never writes into an existing file that has content. If the
// wanted name is taken, it uses the next free one: "run.2.plim" for "run.plim". Missing folders are
// created: a mistyped one must not cost a run of hours. Pipes and devices are written in place. The
// file stays locked while it is written, including across replacements. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"

namespace plimsoll::record {

// A trace that already has the wanted name. One that is being written is kept in either case.
enum class Earlier : std::uint8_t { kKeep, kReplace };

class FileSink {
 public:
  // Makes the file. An existing file is used only if it is empty and regular, or a pipe or device.
  // 0 or the errno. May throw std::bad_alloc.
  int open(const std::string& wanted, Earlier earlier);
  // The same, keeping what has the name; the file appears with the first bytes that are appended,
  // so that a process that is killed before leaves no empty one. Where that is not possible, it
  // appears now.
  int open_unnamed(const std::string& wanted);
  // Of a recording that could not begin: what open() has made.
  void remove() noexcept;
  int close() noexcept;
  // In the child of a fork: closes it, and leaves the rest to the parent.
  void let_go() noexcept;

  int append(std::span<const std::byte> bytes) noexcept;
  int overwrite(std::int64_t offset, std::span<const std::byte> bytes) noexcept {
    return file_.overwrite(offset, bytes);
  }

  // A whole new content, in pieces. Until end_replacement() the old one stays in place and grows by
  // what is appended; that is then appended to the new one too. 0 or the errno;
  // ECANCELED where the file no longer has its name.
  int begin_replacement() noexcept;
  int extend_replacement(std::span<const std::byte> bytes) noexcept {
    return replacement_.write(bytes);
  }
  int end_replacement() noexcept;
  void drop_replacement() noexcept;

  // As the caller wrote it, with the number.
  const std::string& path() const noexcept { return path_; }
  bool is_open() const noexcept { return file_.is_open(); }
  bool is_regular() const noexcept { return file_.is_regular(); }
  bool is_same_as(const FileSink& other) const noexcept {
    return !place_.empty() && place_ == other.place_;
  }

 private:
  void aim_at(const std::string& wanted, int number);
  int take(Earlier earlier);
  int publish();
  int take_existing(Earlier earlier);

  std::string path_;
  std::string place_;  // absolute: the program may change its folder
  bool is_made_ = false;
  bool is_unnamed_ = false;
  base::OutputFile file_;
  base::OutputFile replacement_;
  std::vector<std::byte> since_;  // appended since begin_replacement()
};

}  // namespace plimsoll::record
