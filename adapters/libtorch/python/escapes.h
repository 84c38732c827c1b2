// What Python reads without an operator: memory that it asked for, and the arguments of compiled
// graphs. Everything here needs the GIL.
#pragma once

#include <Python.h>

namespace plimsoll::libtorch {

// Watches the methods of torch that hand out raw memory; the last use of that memory is unknown.
// The C function behind each method is exchanged, so Python sees the same methods.
void watch_escapes();
void stop_watching_escapes();

}  // namespace plimsoll::libtorch
