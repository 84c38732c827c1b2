// The reader of Plimsoll's own trace files (docs/format.md): of any prefix of one, and of one that
// is damaged, as far as it goes. What is read, and how categories are decided:
// docs/readers/native.md.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::native {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::native
