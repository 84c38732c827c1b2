// What the memory is made of at one moment: the live allocations (held bytes: model/live_set.h)
// by line, stack, size class, stream, pool, category, operator and layer.
//
// Promises that the rows of each table and device sum to live_bytes of its moment, to the byte, and
// that live_bytes + unexplained_bytes is the running total of held bytes there. An allocation
// that the recording knows only by its free is charged to "[allocated before recording]", never to
// the line that freed it.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::composition {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::composition
