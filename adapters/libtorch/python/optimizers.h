// Optimizers: their parameters, their state, and the steps they mark. Everything here needs the
// GIL.
#pragma once

#include <Python.h>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Called before and after every optimizer's step.
void before_step(ThreadState& thread, PyObject* optimizer);
// Returns true if the optimizer's step marked a step of the training loop.
bool after_step(ThreadState& thread, PyObject* optimizer);

// Adds an optimizer that was created before attaching.
void adopt_optimizer(ThreadState& thread, PyObject* optimizer);

// Tags the state of known optimizers that is new since the last call.
void tag_optimizers(ThreadState& thread);

// From now on the user marks the steps, and optimizers do not.
void leave_steps_to_user(ThreadState& thread);

// Number of steps of the optimizer that marks the steps.
std::uint64_t steps_so_far();
// Whether the program or an optimizer marks steps.
bool has_steps();
// Counts on from this number, because something else has counted the steps until now.
void continue_steps(std::uint64_t number);

void forget_optimizers();

}  // namespace plimsoll::libtorch
