// Live memory at the point in time of the report's tables, by stack: the input of every flame
// graph. Liveness is that of the tables: requested bytes, until free_completed. If the report has
// no point in time (the pass did not run), the end of the recording is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters {

// The point in time of a device.
struct DevicePoint {
  const model::DeviceTrace* device = nullptr;
  std::string name;  // "peak", "end", ...
  std::int64_t event = 0;
};

// One entry for each device with a point in time, in the order of the devices.
std::vector<DevicePoint> device_points(const ExportInput& input);

struct StackBytes {
  model::StackId stack;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

struct LiveStacks {
  const model::DeviceTrace* device = nullptr;
  std::string point;               // "peak", "end", ...
  std::vector<StackBytes> stacks;  // most bytes first
  std::uint64_t total_bytes = 0;
};

// One entry for each device with a point in time, in the order of the devices.
std::vector<LiveStacks> live_stacks(const ExportInput& input);

}  // namespace plimsoll::exporters
