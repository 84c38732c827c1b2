// Recognizes native trace files without reading them.
#pragma once

#include <string>

namespace plimsoll::engine {

// Whether the file begins as every Plimsoll trace does. False for a file that cannot be read.
bool is_trace_file(const std::string& path);

}  // namespace plimsoll::engine
