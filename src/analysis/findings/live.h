// The peak that rules about native recordings describe.
#pragma once

#include "analysis/findings/rules.h"

namespace plimsoll::analysis::findings {

// The moment that the tables of this device describe, if it is the peak and the recording is native
// (only these have phases); else null.
const report::MomentRow* own_peak(const Facts& facts, const DeviceFacts& device);

}  // namespace plimsoll::analysis::findings
