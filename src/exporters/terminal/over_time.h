// Memory over time as a chart of block characters. Each column shows the point in its span at which
// the most bytes are live (tiles/columns.h), colored by category.
#pragma once

#include <cstddef>
#include <string>

#include "model/trace.h"
#include "model/user_line.h"
#include "report/device_report.h"
#include "text/style.h"

namespace plimsoll::exporters::terminal {

struct OverTimeOptions {
  std::size_t width = 100;                // columns of the terminal; at least kNarrowestReport
  text::Color color = text::Color::kOff;  // off: one shade with the total
};

// Lines of text with a heading. Empty if the device has no events, or if its totals are unknown
// because events and segments disagree.
std::string over_time_text(const model::Trace& trace, const model::UserLines& lines,
                           const report::DeviceReport& device, const OverTimeOptions& options);

}  // namespace plimsoll::exporters::terminal
