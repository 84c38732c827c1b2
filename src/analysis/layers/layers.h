// The memory of every layer: its live bytes at the point in time of the tables, by role and by the
// phase that allocated them, and the peak of its live bytes. Each figure is given for the layer
// itself, and for the layer with all layers inside it. Peaks are exact, from a replay of the
// events. model/layers.h defines which layer owns which memory.
//
// Invariants: the own bytes of a device's rows sum to live_bytes of its point in time, to the byte,
// and a row's inclusive bytes are its own and those of its children.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::layers {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::layers
