// Optimizers: their parameters, their state, and the steps they mark. All under the GIL.
#pragma once

#include <Python.h>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Around every optimizer's step.
void before_step(ThreadState& thread, PyObject* optimizer);
// True if it marked a step.
bool after_step(ThreadState& thread, PyObject* optimizer);

// An optimizer that was there before us.
void adopt_optimizer(ThreadState& thread, PyObject* optimizer);

// Tags what the known optimizers hold that is new since the last time.
void tag_optimizers(ThreadState& thread);

// From now on the user marks the steps, no optimizer does.
void leave_steps_to_user(ThreadState& thread);

// How often the optimizer that marks the steps has stepped.
std::uint64_t steps_so_far();

void forget_optimizers();

}  // namespace plimsoll::libtorch
