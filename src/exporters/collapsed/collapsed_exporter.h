// Brendan Gregg's folded stacks, `root;...;leaf bytes`: the live set at the report's point in time.
// The root frame is the device; the others are `function (file:line)`, without the frames of the
// interpreter. Characters in names that would break the format (semicolons, line breaks, other
// control characters) are replaced.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::collapsed {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::collapsed
