// A file that appears complete or not at all: written next to its destination under another name
// and renamed at the end. A device or pipe (/dev/stdout) is written to directly; "-" is stdout.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

enum class Existing : std::uint8_t { kRefuse, kReplace };
enum class Readable : std::uint8_t { kByUmask, kByOwner };

class OutputFile {
 public:
  // `option` names the path in messages.
  static Result<OutputFile> create(const std::string& path, Existing existing,
                                   const char* option = "-o",
                                   Readable readable = Readable::kByUmask);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // discards an unfinished file

  bool write(std::string_view bytes);  // false once the output accepts no more
  Status finish();                     // flushes, checks, renames
  std::uint64_t size_bytes() const { return size_bytes_; }
  bool reader_has_gone() const;  // of a pipe

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

  std::string path_;
  std::string temporary_;  // empty: written directly
  std::FILE* file_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  int errno_ = 0;  // of the first write that failed
};

// An error if writing `output` would replace one of the `inputs`, also through a link.
Status check_not_an_input(const std::string& output, const std::vector<std::string>& inputs,
                          const char* option = "-o");

}  // namespace plimsoll::cli
