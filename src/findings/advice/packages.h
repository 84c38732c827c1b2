// Finds which code inside packages allocates on behalf of a line of the program, and how the models
// of those packages are checkpointed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "model/trace.h"

namespace plimsoll::findings {

// Returns the call for the package whose layers allocate half of the parts or more; null if there
// is none.
const evidence::CheckpointCall* checkpoint_call(const Peak& peak,
                                                const std::vector<std::uint32_t>& parts);

// Of the parts at `line`, returns the line inside the packages that allocates the most, with its
// bytes. Empty unless a module of a package runs there: naming a helper, such as einops, would add
// nothing.
std::pair<std::string, std::uint64_t> package_line_of_most(const Peak& peak,
                                                           const std::vector<std::uint32_t>& parts,
                                                           const std::string& line);

}  // namespace plimsoll::findings
