// The report on one screen: the verdicts, the evidence and the next step of the first, the peak of
// each device, and the largest lines.
#pragma once

#include <cstddef>
#include <string>

#include "exporters/terminal/report.h"
#include "report/report.h"

namespace plimsoll::exporters::terminal {

inline constexpr std::size_t kBriefLines = 24;  // at 80 columns or more

// At most kBriefLines lines. The last one is options.full_command, which is never
// shortened, so that line alone may be wider than the screen.
std::string to_brief_text(const report::Report& report, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
