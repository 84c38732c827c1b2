// ByteSource: where a reader's bytes come from. File, memory, and decoders stacked on another
// source (gzip, base64) look the same; a reader never learns how big the pieces are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::readers {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills some of `into` (at least one byte unless at the end) and returns how many; 0 means the
  // end.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  // Upper bound on the bytes still to come, if known; else 0. A hint: files grow.
  virtual std::uint64_t size_hint() const { return 0; }
};

// The file's own bytes. Errors say what is wrong with the path: missing, a directory, no
// permission.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);

// A view of bytes that outlive the source, handed out in pieces of at most `piece` bytes (tests use
// 1, 7, 4096).
std::unique_ptr<ByteSource> view_memory(std::span<const std::byte> bytes,
                                        std::size_t piece = SIZE_MAX);

// Reads all members of a gzip stream. Errors on damage and on a cut end.
std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> compressed);

// `head` again, then the rest: for looking at the first bytes without losing them.
std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head, std::unique_ptr<ByteSource> rest);
std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head,
                                    ByteSource& rest);  // `rest` outlives it

}  // namespace plimsoll::readers
