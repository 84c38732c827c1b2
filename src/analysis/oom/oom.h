// oom: the state of the device at each out-of-memory event: the requesting line, live memory by
// line, the gaps, and the cause class (cause.h). Segments are rolled back to the event; block sizes
// are those of model/heap_layout.h.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::oom {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::oom
