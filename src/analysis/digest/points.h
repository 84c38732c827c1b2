// The points of a device that a digest describes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/pass.h"
#include "model/trace.h"
#include "report/device_report.h"

namespace plimsoll::analysis::digest {

struct Point {
  std::string name;
  std::int64_t event = 0;  // the point is after this event; model::kBeforeFirst: before the first
};

// In the order in which a step reaches them; without those that the recording does not have.
std::vector<Point> find_digest_points(const model::Trace& trace, const model::DeviceTrace& device,
                                      const report::DeviceReport& totals);

}  // namespace plimsoll::analysis::digest
