// Resolves the user's point in time to an event of each device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/pass.h"
#include "model/trace.h"
#include "plimsoll/result.h"
#include "report/device_report.h"

namespace plimsoll::analysis::composition {

struct EventPoint {
  std::string name;
  std::int64_t event = 0;       // the point is after this event; kBeforeFirst: before the first
  bool is_of_segments = false;  // only what the final segments contain is reliable
};

// One entry per device, in order; nullopt if the user did not request the device, or if the point
// does not exist on it. An error if it exists on no device.
Result<std::vector<std::optional<EventPoint>>> find_points(const PassContext& context);

}  // namespace plimsoll::analysis::composition
