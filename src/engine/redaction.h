// A trace file without what only its owner should know: the names in it are replaced by pseudonyms
// (pseudonyms.h), and everything else, sizes, times and addresses, is as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/result.h"

namespace plimsoll::engine {

struct Redaction {
  std::uint64_t names = 0;           // that were replaced
  std::uint64_t attachments = 0;     // other tools' records, which are left out whole
  std::uint64_t damaged_blocks = 0;  // left out
};

// Reads a native recording and gives its redacted bytes to `write`, which returns false when it
// takes no more. What is left out of the file is the text of paths, functions, layers, tensors,
// regions, processes and the command line; those that Python, torch and CUDA give are kept.
Result<Redaction> redact(const std::string& path,
                         const std::function<bool(std::string_view)>& write);

}  // namespace plimsoll::engine
