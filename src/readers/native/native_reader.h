// The reader of Plimsoll's own trace files (docs/format.md). It accepts any prefix of a file, and a
// damaged file up to the damage. docs/readers/native.md describes what is read and how categories
// are decided.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::native {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::native
