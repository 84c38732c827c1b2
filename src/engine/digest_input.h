// Reads digest files.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::engine {

// Returns the digest in the file, or nullopt if the file is not a digest or cannot be opened.
// Returns an error if the digest is damaged.
Result<std::optional<report::Digest>> read_digest(const std::string& path);

}  // namespace plimsoll::engine
