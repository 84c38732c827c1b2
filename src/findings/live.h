// Finds the peak that the rules about its composition describe.
#pragma once

#include "findings/rules.h"

namespace plimsoll::findings {

// The point in time that the tables of this device describe, if it is the peak; else null.
const report::PointInTime* peak_point(const Facts& facts, const DeviceFacts& device);

// The same if the recording is native (only native recordings have phases); else null.
const report::PointInTime* own_peak(const Facts& facts, const DeviceFacts& device);

}  // namespace plimsoll::findings
