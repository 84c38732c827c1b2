// The Python stack of the running thread, read without the GIL.
#pragma once

#include <Python.h>

#include "attachment.h"

namespace plimsoll::libtorch {

StackSource python_stacks();

// Frames of files below this folder are not reported when they stand outermost: ours, which run the
// user's script.
void set_runner_folder(const char* path);

// The cells of a notebook: their numbers by the names that IPython gives to their files. Null:
// none.
void set_notebook_cells(PyObject* cells);

}  // namespace plimsoll::libtorch
