// A Diff as terminal text: the findings, the points in time side by side, and what makes the
// recordings hard to compare.
#pragma once

#include <string>

#include "comparison/diff.h"
#include "exporters/terminal/report.h"

namespace plimsoll::exporters::terminal {

std::string to_text(const comparison::Diff& diff, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
