// Redacts a trace file: replaces its names by pseudonyms (pseudonyms.h) and keeps everything else
// (sizes, times, addresses).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/result.h"
#include "plimsoll/session.h"

namespace plimsoll::redaction {

struct Redaction {
  NameMap names;                     // the replaced texts
  std::uint64_t attachments = 0;     // other tools' records, omitted entirely
  std::uint64_t damaged_blocks = 0;  // omitted
};

// Whether the file is a native recording, which redact() accepts.
Result<bool> is_native(const std::string& path);

// Reads a native recording and passes its redacted bytes to `write`, which returns false when it
// accepts no more. The text of paths, functions, layers, classes, tensors, regions, processes
// and the command line is replaced, unless it comes from Python, torch or CUDA. Source lines and
// their hashes are omitted.
Result<Redaction> redact(const std::string& path,
                         const std::function<bool(std::string_view)>& write);

}  // namespace plimsoll::redaction
