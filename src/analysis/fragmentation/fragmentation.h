// fragmentation: which reserved bytes are not allocated at the end of the recording, exactly, from
// the allocator's own block lists. Stranded bytes are measured against the last failed request;
// without one, against the largest allocation of the recording.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::fragmentation {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::fragmentation
