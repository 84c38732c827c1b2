#include "findings/live.h"

#include <algorithm>

namespace plimsoll::findings {

const report::PointInTime* peak_point(const Facts& facts, const DeviceFacts& device) {
  const auto& points = facts.report.tables.points;
  const auto point = std::ranges::find(points, device.report.device, &report::PointInTime::device);
  const bool is_peak = point != points.end() && point->name == "peak";
  return is_peak ? &*point : nullptr;
}

const report::PointInTime* own_peak(const Facts& facts, const DeviceFacts& device) {
  return facts.trace.has_phases() ? peak_point(facts, device) : nullptr;
}

}  // namespace plimsoll::findings
