// The Python stack of the running thread, read without the GIL.
#pragma once

#include <Python.h>

#include "attachment.h"

namespace plimsoll::libtorch {

const StackSource& python_stacks();

// For the native attribution, whose hooks may run while other threads wait for what the hook's
// caller has locked: they never wait for the GIL. The frames' names are read immediately, and
// defined. A code object cannot be retained without the GIL: until hold_seen_code() has met it, its
// names are compared each time.
// `frame`: the innermost one of the stack; null: none.
std::uint32_t capture_without_gil(ThreadState& thread, const void* frame) noexcept;
// The stack of Python code in an autograd node: its frames, inside of frame `outside`, on top of
// the forward's stack.
std::uint32_t capture_in_node_without_gil(ThreadState& thread, std::uint32_t of_forward,
                                          const void* outside) noexcept;
// Retains the code objects of the running frames, if this thread has defined new stacks. Needs the
// GIL.
void hold_seen_code(ThreadState& thread) noexcept;

// Outermost frames from files below this folder are not reported: they belong to Plimsoll, which
// runs the user's script.
void set_runner_folder(const char* path);

// Whether the code is in such a file.
bool is_own_code(const PyCodeObject* code);

// Sets the dict with the numbers of a notebook's cells, by the file names that IPython assigns;
// null if there is no notebook.
void set_notebook_cells(PyObject* cells);

}  // namespace plimsoll::libtorch
