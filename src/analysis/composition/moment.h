// Which event of each device the user's moment is.
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

struct FoundMoment {
  std::string name;
  std::int64_t event = 0;  // after this one; kBeforeFirst: before the first
};

// One entry a device, in their order; none where the user did not ask for the device, or where the
// moment does not exist on it. It is an error if it exists on no device.
Result<std::vector<std::optional<FoundMoment>>> find_moments(const PassContext& context);

// Held bytes after `event`.
std::int64_t held_bytes_at(const model::DeviceTrace& device, const report::DeviceReport& totals,
                           std::int64_t event);

}  // namespace plimsoll::analysis::composition
