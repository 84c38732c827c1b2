// The peak that rules about what fills it describe.
#pragma once

#include "analysis/findings/rules.h"

namespace plimsoll::analysis::findings {

// The point in time that the tables of this device describe, if it is the peak; else null.
const report::MomentRow* peak_moment(const Facts& facts, const DeviceFacts& device);

// The same where the recording is native (only these have phases); else null.
const report::MomentRow* own_peak(const Facts& facts, const DeviceFacts& device);

}  // namespace plimsoll::analysis::findings
