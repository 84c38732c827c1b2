// Queries about the devices of a report.
#pragma once

#include <algorithm>
#include <cstdint>

#include "report/device_report.h"
#include "report/report.h"

namespace plimsoll::report {

// Whether events, live memory or the driver's figures were recorded for the device.
inline bool has_content(const DeviceReport& device) {
  return device.events > 0 || device.segments > 0 || device.requested_active.peak_bytes != 0 ||
         !device.bars.empty();
}

// nullptr if the report has no device with this number.
inline const DeviceReport* find_device(const Report& report, std::int32_t ordinal) {
  const auto found = std::ranges::find(report.devices, ordinal, &DeviceReport::device);
  return found == report.devices.end() ? nullptr : &*found;
}

}  // namespace plimsoll::report
