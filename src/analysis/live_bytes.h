// The bytes that the tables of a device count at a point in time, from its running totals.
#pragma once

#include <cstdint>

#include "model/trace.h"
#include "report/device_report.h"

namespace plimsoll::analysis {

// Live bytes after `event`. `totals` has the timeline.
std::int64_t live_bytes_at(const model::DeviceTrace& device, const report::DeviceReport& totals,
                           std::int64_t event);

}  // namespace plimsoll::analysis
