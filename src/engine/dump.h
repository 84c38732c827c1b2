// Prints the records of a trace file, given by its path, as text (format/dump.h); decompresses
// gzip.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/result.h"

namespace plimsoll::engine {

// `write` receives whole lines and returns false to stop the dump.
Status dump(const std::string& path, const std::function<bool(std::string_view)>& write);

}  // namespace plimsoll::engine
