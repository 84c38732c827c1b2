// The Python stack of the running thread, read without the GIL.
#pragma once

#include <Python.h>

#include "attachment.h"

namespace plimsoll::libtorch {

const StackSource& python_stacks();

// Outermost frames from files below this folder are not reported: they are Plimsoll's, which run
// the user's script.
void set_runner_folder(const char* path);

// The cells of a notebook: their numbers, by the file names that IPython assigns. Null: none.
void set_notebook_cells(PyObject* cells);

}  // namespace plimsoll::libtorch
