// Determines what other Python threads may be executing while this one has the GIL.
#pragma once

namespace plimsoll::libtorch {

// Whether walks may read the gradients of all tensors. A thread that removes a gradient releases
// the GIL midway, and a backward runs without the GIL: meanwhile the gradient of another thread's
// tensor may point to freed memory. They may be read while every other thread waits for a lock or a
// queue, which means that its innermost Python code is in the standard library. Needs the GIL,
// which must not be released between this call and the reading.
bool may_read_gradients();

// Stores the standard library's folder, before the first hook runs. Returns false with an exception
// set on failure.
bool find_standard_library();

}  // namespace plimsoll::libtorch
