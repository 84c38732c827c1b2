// The Python stack of the running thread, read without the GIL.
#pragma once

#include <Python.h>

#include "attachment.h"

namespace plimsoll::libtorch {

const StackSource& python_stacks();

// Outermost frames from files below this folder are not reported: they belong to Plimsoll, which
// runs the user's script.
void set_runner_folder(const char* path);

// Whether the code is in such a file.
bool is_own_code(const PyCodeObject* code);

// Sets the dict with the numbers of a notebook's cells, by the file names that IPython assigns;
// null if there is no notebook.
void set_notebook_cells(PyObject* cells);

}  // namespace plimsoll::libtorch
