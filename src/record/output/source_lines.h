// The source lines of a recording's frames, so that two recordings can be compared although the
// program was edited between them. They are read from the files when the recording ends, which is
// off every hot path, and without Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "record/output/definitions.h"

namespace plimsoll::record {

inline constexpr std::size_t kMostSourceTextBytes = 120;

struct SourceText {
  std::uint32_t file = 0;  // name
  std::uint32_t line = 0;
  std::uint64_t hash = 0;
  std::string text;  // white space folded; at most kMostSourceTextBytes
};

// The lines of all frames so far that a report may charge: none of torch's own. A file that is
// missing, or was changed at or after this time, has none. Any thread may call it. May throw
// std::bad_alloc.
std::vector<SourceText> read_source_lines(Definitions& definitions, std::int64_t before_ns);

}  // namespace plimsoll::record
