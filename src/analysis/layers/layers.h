// The memory of every layer: its live bytes at the point in time of the tables, by the phase that
// allocated them and by role, and the peak of its live bytes; for the layer itself, and with all
// layers inside it. Peaks are exact: one replay of the events. model/layers.h defines which layer
// owns what.
//
// Invariants: the own bytes of a device's rows sum to live_bytes of its point in time, to the byte,
// and a row's inclusive bytes are its own and those of its children.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::layers {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::layers
