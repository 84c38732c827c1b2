// A file that appears either complete or not at all: it is written next to its destination under
// another name and then renamed. A device or pipe (/dev/stdout) is written directly; "-" is stdout.
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
  bool reader_has_gone() const;  // whether the output is a pipe without a reader

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

  std::string path_;
  std::string temporary_;  // empty: written directly
  std::FILE* file_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  int errno_ = 0;  // the error of the first write that failed
};

// Returns an error if writing `output` would replace one of the `inputs`, even through a link.
Status check_not_an_input(const std::string& output, const std::vector<std::string>& inputs,
                          const char* option = "-o");

}  // namespace plimsoll::cli
