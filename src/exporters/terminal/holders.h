// What holds the live memory, as text: the tree of a report's holders.
#pragma once

#include <string>

#include "exporters/terminal/report.h"
#include "report/report.h"

namespace plimsoll::exporters::terminal {

// For each device: its tree, with the proof and the edit of each holder that was cut. Says so if
// the recording has no holders.
std::string holders_text(const report::Report& report, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
