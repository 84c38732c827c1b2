// One device in the text report: its totals, the reserved bytes that are not allocated, and each
// out-of-memory event.
#pragma once

#include <cstddef>
#include <string>

#include "report/device_report.h"
#include "text/style.h"

namespace plimsoll::exporters::terminal {

std::string bold_line(const std::string& text, text::Color color);

std::string device_text(const report::DeviceReport& device, std::size_t width, text::Color color);

}  // namespace plimsoll::exporters::terminal
