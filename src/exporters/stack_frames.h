// Selects the frames that are shown in the rows of the table by stack.
#pragma once

#include <cstddef>
#include <vector>

#include "report/tables.h"

namespace plimsoll::exporters {

// Returns the indices of the frames to show, for each row: the innermost Python frames outside
// torch. If rows have the same key and the same such frames, the frames at which their stacks
// differ are added, Python or not, so that different stacks never look the same.
std::vector<std::vector<std::size_t>> frames_shown(
    const std::vector<const report::GroupRow*>& rows);

}  // namespace plimsoll::exporters
