// One device of the text report: its totals, where reserved bytes are not allocated, and each time
// it ran out.
#pragma once

#include <cstddef>
#include <string>

#include "report/device_report.h"
#include "report/text_style.h"

namespace plimsoll::report {

std::string device_text(const DeviceReport& device, std::size_t width, Color color);

}  // namespace plimsoll::report
