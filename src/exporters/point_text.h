// How the tables of a report describe a device's point in time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/device_report.h"
#include "report/tables.h"

namespace plimsoll::exporters {

template <typename Row>
std::vector<const Row*> rows_of(const std::vector<Row>& rows, const report::DeviceReport& device) {
  std::vector<const Row*> found;
  for (const Row& row : rows) {
    if (row.device == device.device) found.push_back(&row);
  }
  return found;
}

// The running total minus the allocations in the file: memory from before the recording.
std::uint64_t older_bytes(const report::PointInTime& point);

// "at its peak, event 120 of 9,153 (0.9 ms), in step 3, in forward of UNet.up.1 (aten::cat)".
std::string point_place(const report::DeviceReport& device, const report::PointInTime& point);
// "20.8 GiB allocated in 76 allocations".
std::string point_bytes(const report::DeviceReport& device, const report::PointInTime& point);
// "What fills cuda:0 at its peak, event 120 of 9,153 (0.9 ms), in step 3, forward of UNet.up.1:
// 20.8 GiB in 76 allocations"
std::string point_heading(const report::DeviceReport& device, const report::PointInTime& point);

// The bytes as a share of all live bytes at that point: "12.3%".
std::string share_text(std::uint64_t bytes, const report::PointInTime& point);

}  // namespace plimsoll::exporters
