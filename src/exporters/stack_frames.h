// Which frames of the rows of the table by stack are shown.
#pragma once

#include <cstddef>
#include <vector>

#include "report/tables.h"

namespace plimsoll::exporters {

// Returns the indices of the frames to show, for each row: the innermost Python frames outside
// torch. If rows have the same key and the same such frames, the frames of any kind at which their
// stacks differ are added, so that different stacks never look the same.
std::vector<std::vector<std::size_t>> frames_shown(
    const std::vector<const report::GroupRow*>& rows);

}  // namespace plimsoll::exporters
