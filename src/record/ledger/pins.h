// Which reserved memory of a device a failed request could not use, and which blocks prevent its
// return to the driver: the rule of analysis/pinning.h, applied to the ledger's current state. Used
// for reports while the program still runs, without the engine.
//
// Computed only when memory has run out; sorts the device's blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/last_failure_c.h"
#include "plimsoll/recorder_c.h"
#include "record/ledger/ledger.h"

namespace plimsoll::record {

struct Pins {
  plimsoll_stranded sums{};
  std::vector<plimsoll_pin> rows;  // one per site, most pinned bytes first
};

// For the last failed request on the device; empty without one. May throw std::bad_alloc.
Pins find_pins(const Ledger& ledger, std::uint8_t device);

}  // namespace plimsoll::record
