// Which frames are the user's: code outside torch, the C and C++ libraries and Plimsoll itself.
#pragma once

#include "native_stacks/source_lines.h"

namespace plimsoll::native_stacks {

// Templates and inline functions of torch and of the standard library are part of the user's
// program: they are recognized by their namespace or, without a linker name, by their source file.
bool is_library_code(const CodeFrame& frame);

}  // namespace plimsoll::native_stacks
