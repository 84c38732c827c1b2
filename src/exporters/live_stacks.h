// What was live at the moment the report's tables speak of, by stack: the input of every flame
// graph. Liveness is that of the tables: requested bytes, until free_completed. A report without
// moments (the pass did not run) means the end of the recording.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters {

// The moment of a device.
struct DeviceMoment {
  const model::DeviceTrace* device = nullptr;
  std::string name;  // "peak", "end", ...
  std::int64_t event = 0;
};

// One entry for each device that has a moment, in the order of the devices.
std::vector<DeviceMoment> device_moments(const ExportInput& input);

struct StackBytes {
  model::StackId stack;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

struct LiveStacks {
  const model::DeviceTrace* device = nullptr;
  std::string moment;              // "peak", "end", ...
  std::vector<StackBytes> stacks;  // most bytes first
  std::uint64_t total_bytes = 0;
};

// One entry for each device that has a moment, in the order of the devices.
std::vector<LiveStacks> live_stacks(const ExportInput& input);

}  // namespace plimsoll::exporters
