#include "report/device_report.h"

#include <algorithm>

namespace plimsoll::report {

std::uint64_t DeviceReport::disagreement_bytes() const {
  const std::int64_t lowest = std::min({std::int64_t{0}, requested_allocated.baseline_bytes,
                                        requested_active.baseline_bytes, reserved.baseline_bytes});
  // Negate as an unsigned number: the lowest int64 has no positive counterpart.
  return std::max(std::uint64_t{0} - static_cast<std::uint64_t>(lowest),
                  active_above_reserved_bytes);
}

bool DeviceReport::has_unknown_peak() const {
  constexpr double kMuch = 0.05;  // of the reserved bytes
  const std::uint64_t bytes = disagreement_bytes();
  return bytes > 0 &&
         static_cast<double>(bytes) >= kMuch * static_cast<double>(reserved.peak_bytes);
}

}  // namespace plimsoll::report
