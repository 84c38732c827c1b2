// Determines what other Python threads may be executing while this one has the GIL.
#pragma once

namespace plimsoll::libtorch {

// Whether walks may read the gradients of all tensors. A thread that removes a gradient releases
// the GIL midway, and a backward runs without the GIL. At those times the gradient of another
// thread's tensor may point to freed memory. Reading is allowed while the innermost Python code of
// every other thread is in the standard library, where the thread waits for a lock or a queue.
// Needs the GIL, which must not be released between this call and the reading.
bool may_read_gradients();

// Stores the standard library's folder, before the first hook runs. Returns false with an exception
// set on failure.
bool find_standard_library();

}  // namespace plimsoll::libtorch
