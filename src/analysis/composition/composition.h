// The composition of memory at one point in time: the live allocations (bytes as in
// model/live_set.h) by line, stack, size class, stream, pool, category, operator and layer.
//
// Invariants: the rows of each table and device sum to live_bytes of its point in time, to the
// byte, and live_bytes + unexplained_bytes is the running total there. An allocation known only by
// its free is charged to "[allocated before recording]", never to the line that freed it.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::composition {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::composition
