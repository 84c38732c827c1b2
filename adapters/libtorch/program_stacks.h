// Stacks of C++ programs, for source lines.
#pragma once

#include "attachment.h"

namespace plimsoll::libtorch {

const StackSource& program_stacks();

}  // namespace plimsoll::libtorch
