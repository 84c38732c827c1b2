// What other threads of Python may be in the middle of while this one has the GIL.
#pragma once

namespace plimsoll::libtorch {

// Whether walks may read the gradients of all tensors. A thread that takes a gradient away gives
// the GIL up in the middle of it, and a backward runs without the GIL: meanwhile the gradient of
// another thread's tensor may point to memory that is free. They may be read while every other
// thread waits, for a lock or a queue: the innermost Python code it is in is of the standard
// library. Needs the GIL, which must not be given up between this and the reading.
bool may_read_gradients();

// Takes the folder of the standard library, before the first hook runs. False with an exception.
bool find_standard_library();

}  // namespace plimsoll::libtorch
