// The reader of torch.profiler traces: Chrome trace JSON as Kineto writes it, of every age since
// 2021 and of every back end. Takes the `[memory]` events and the spans around them; all else in
// the file is skipped. What is read, and what is assumed: docs/readers/kineto.md.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::kineto {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::kineto
