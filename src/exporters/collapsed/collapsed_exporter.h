// Brendan Gregg's folded stacks, `root;...;leaf bytes`: the live set at the report's moment. The
// root frame is the device, the others are `function (file:line)`, without the interpreter's own.
// What would break the format (semicolons, line breaks, other control characters) is replaced in
// names.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::collapsed {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::collapsed
