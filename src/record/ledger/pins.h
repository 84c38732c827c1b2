// Finds the reserved memory of a device that a failed request could not use, and the blocks that
// prevent its return to the driver. Applies the rule of analysis/pinning.h to the ledger's current
// state, for reports while the program runs, without the engine.
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

// For the last failed request on the device; empty if none has failed. May throw std::bad_alloc.
Pins find_pins(const Ledger& ledger, std::uint8_t device);

}  // namespace plimsoll::record
