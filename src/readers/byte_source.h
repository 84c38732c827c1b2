// ByteSource: the input of a reader. Files, memory, and decoders of another source (gzip, base64)
// share this interface; a reader does not depend on the size of the pieces.
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
  // Fills part of `into` (at least one byte unless at the end) and returns how much; 0 means the
  // end.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  // An upper bound on the remaining bytes, 0 if unknown. Only a hint: files grow.
  virtual std::uint64_t size_hint() const { return 0; }
};

// The file's own bytes; - is standard input. Errors state what is wrong with the path: missing, a
// directory, no permission.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);

// A view of bytes that must outlive the source, returned in pieces of at most `piece` bytes (tests
// use 1, 7, 4096).
std::unique_ptr<ByteSource> view_memory(std::span<const std::byte> bytes,
                                        std::size_t piece = SIZE_MAX);

// Decompresses all members of a gzip stream. Damage and a truncated end are errors.
std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> compressed);

// Returns `head`, then the rest: restores the first bytes after they were inspected.
std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head, std::unique_ptr<ByteSource> rest);
std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head,
                                    ByteSource& rest);  // `rest` outlives it

}  // namespace plimsoll::readers
