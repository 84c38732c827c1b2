// Pairs the devices of two digests that trained on different ones, such as a CPU and a GPU.
#pragma once

#include <string>

#include "report/digest.h"

namespace plimsoll::comparison {

// A recording trains on its GPU if it has one, else on the CPU. If both digests have one such
// device, and not the same, gives the device of `before` the name of the other. Returns a sentence
// that says so; empty if nothing was renamed.
std::string pair_devices(report::Digest& before, const report::Digest& after);

}  // namespace plimsoll::comparison
