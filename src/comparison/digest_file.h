// Reads the JSON of a digest (report/digest.h), which may come from anywhere.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// Whether a file that begins with these bytes is a digest.
bool is_digest(std::string_view begin);

// `name` is that of the file, for errors. Unknown keys are skipped. Indices of rows are checked.
Result<report::Digest> parse_digest(const std::string& text, const std::string& name);

}  // namespace plimsoll::comparison
