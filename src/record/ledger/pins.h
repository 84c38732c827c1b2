// What of a device's reserved memory was of no use to a request that could not be met, and which
// blocks keep it from being given back to the driver: the rule of analysis/pinning.h, on what the
// ledger knows now. For a report while the program still runs, where no engine is installed.
//
// Asked for when memory has run out, once; it sorts the blocks of the device.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/last_failure_c.h"
#include "plimsoll/recorder_c.h"
#include "record/ledger/ledger.h"

namespace plimsoll::record {

struct Pins {
  plimsoll_stranded sums{};
  std::vector<plimsoll_pin> rows;  // one for each site, those that pin most first
};

// Against the last request on the device that could not be met; nothing without one. May throw
// std::bad_alloc.
Pins find_pins(const Ledger& ledger, std::uint8_t device);

}  // namespace plimsoll::record
