// Which frames are the user's: code outside torch, the C and C++ libraries and Plimsoll itself.
#pragma once

#include <string_view>

#include "native_stacks/source_lines.h"

namespace plimsoll::native_stacks {

// Whether this shared library, by the name of its file, is torch or a library below it.
bool is_library_object(std::string_view path);

// Whether a function of Plimsoll contains this code.
bool is_plimsoll(const CodeFrame& frame);

// Templates and inline functions of torch and of the standard library are part of the user's
// program: they are recognized by their namespace or, without a linker name, by their source file.
bool is_library_code(const CodeFrame& frame);

}  // namespace plimsoll::native_stacks
