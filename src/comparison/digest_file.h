// Parses the JSON of a digest (report/digest.h). The input is untrusted.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// Whether a file that begins with these bytes is a digest.
bool is_digest(std::string_view begin);

// `name` is the file name for error messages. Skips unknown keys and checks all indices and sums.
Result<report::Digest> parse_digest(const std::string& text, const std::string& name);

}  // namespace plimsoll::comparison
