// Every layer's memory: what is live of it at the moment that the tables speak of, by the phase
// that allocated it and by what it is, and the most that was ever live of it; itself, and with all
// layers inside it. Peaks are exact: one replay of the events. model/layers.h says which layer owns
// what.
//
// Promises that the own bytes of a device's rows sum to live_bytes of its moment, to the byte, and
// that a row's inclusive bytes are its own and those of its children.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::layers {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::layers
