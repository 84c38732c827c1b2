// The Python stack of the running thread, read without the GIL.
#pragma once

#include "attachment.h"

namespace plimsoll::libtorch {

StackSource python_stacks();

// Frames of files below this folder are not told when they stand outermost: ours, which run the
// user's script.
void set_runner_folder(const char* path);

}  // namespace plimsoll::libtorch
