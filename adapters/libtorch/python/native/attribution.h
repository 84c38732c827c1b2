// The native attribution: what an event of a thread belongs to, without torch's observer. The
// operator comes from the native stack (chains.h), the line from Python's frames, and the forward
// operator of a node from the time when torch numbers it.
#pragma once

#include <Python.h>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Returns null if operators can be attributed natively in this process, or one sentence with the
// reason why not. Compares the names with those of torch's observer. Needs the GIL.
const char* prepare_native_attribution(bool is_notebook);

// From now on, operators are attributed natively in each step in which no uses are observed. Only
// after prepare_native_attribution() has returned null. Returns null or a sentence, too.
const char* begin_native_attribution();
void end_native_attribution() noexcept;
// At the end of a step: if the step had an operator that the native stack does not name, the
// operators of later steps are observed.
void end_native_step() noexcept;

}  // namespace plimsoll::libtorch
