// The device whose results a tracer gives.
#pragma once

#include <string>

#include "report/report.h"

namespace plimsoll::engine {

// Without a name: the first GPU, or the CPU. Null if the recording does not have the device.
const report::DeviceReport* traced_device(const report::Report& report, const std::string& name);

}  // namespace plimsoll::engine
