// Overwrites memory after its last use, for plimsoll verify: a program whose results then differ
// has used memory that the recording calls unused. Inactive unless PLIMSOLL_OVERWRITE names a plan.
#pragma once

#include "plimsoll/recorder_c.h"

namespace plimsoll::libtorch {

// Returns `api`. With a plan, returns functions that call those of `api` and, before allocation
// number n of a device, fill memory of this device with 0xFF if the plan says that it is unused
// from n on. Device memory must be readable by the host.
const plimsoll_recorder_api* overwriting(const plimsoll_recorder_api* api);

}  // namespace plimsoll::libtorch
