// The file of a recording. A recording never writes into an existing file that has content: if the
// wanted name is taken, it uses the next free one, "run.2.plim" for "run.plim". Missing folders are
// created, because a typo must not cost a run of hours. Pipes and devices are written in place. The
// file stays locked while it is written, including across replacements. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"

namespace plimsoll::record {

// Whether to keep an existing trace with the wanted name. A trace that is being written is always
// kept.
enum class Earlier : std::uint8_t { kKeep, kReplace };

class FileSink {
 public:
  // Creates the file. An existing file is used only if it is empty and regular, or a pipe or
  // device. Returns 0 or the errno. May throw std::bad_alloc.
  int open(const std::string& wanted, Earlier earlier);
  // Like open(), but always keeps an existing file. The file appears with the first appended bytes,
  // so that a process that is killed earlier leaves no empty one. Where the file system does not
  // support this, it appears immediately.
  int open_unnamed(const std::string& wanted);
  // Removes the file that open() created, if the recording could not begin.
  void remove() noexcept;
  int close() noexcept;
  // In the child of a fork: closes the file, which still belongs to the parent.
  void abandon() noexcept;

  int append(std::span<const std::byte> bytes) noexcept;
  int overwrite(std::int64_t offset, std::span<const std::byte> bytes) noexcept {
    return file_.overwrite(offset, bytes);
  }

  // Replaces the whole content, in pieces. Until end_replacement() the old content stays in place;
  // append() adds to it and, at the end, to the new content. Returns 0 or the errno; ECANCELED if
  // the file no longer has its name.
  int begin_replacement() noexcept;
  int extend_replacement(std::span<const std::byte> bytes) noexcept {
    return replacement_.write(bytes);
  }
  int end_replacement() noexcept;
  void drop_replacement() noexcept;

  // The path that the caller passed, with a number if the name was taken.
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
  std::string place_;      // absolute: the program may change its folder
  std::string temporary_;  // of the replacement
  bool is_made_ = false;
  bool is_unnamed_ = false;
  base::OutputFile file_;
  base::OutputFile replacement_;
  std::vector<std::byte> since_;  // appended since begin_replacement()
};

}  // namespace plimsoll::record
