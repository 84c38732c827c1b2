// Reads digests that were kept as files.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::engine {

// The digest in the file; nullopt if the file is something else, or cannot be opened. A damaged
// digest is an error.
Result<std::optional<report::Digest>> read_digest(const std::string& path);

}  // namespace plimsoll::engine
