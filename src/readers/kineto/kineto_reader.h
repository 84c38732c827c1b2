// The reader of torch.profiler traces: Chrome trace JSON as Kineto has written it since 2021, from
// any back end. It reads the `[memory]` events and the spans around them and skips everything else.
// docs/readers/kineto.md lists what is read and what is assumed.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::kineto {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::kineto
