// The allocations of each source line over the whole recording: bytes, count, lifetimes, how much
// was freed immediately (churn), and how much never. Only allocations made in the recording count.
// The pass keeps the lines with the most bytes, with the most bytes never freed, and with the most
// temporary allocations.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::sites {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::sites
