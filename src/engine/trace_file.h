// Recognizes native trace files without reading them.
#pragma once

#include <string>

namespace plimsoll::engine {

// Whether the file has the header of a Plimsoll trace. False for an unreadable file.
bool is_trace_file(const std::string& path);

}  // namespace plimsoll::engine
