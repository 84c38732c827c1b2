// Where a walk begins: modules, running frames, exceptions and the state of threads.
#pragma once

#include "python/holders/walk.h"

namespace plimsoll::libtorch::holders {

// Adds the program's roots to a walk, and blocks those of Plimsoll. Returns false if a backward
// runs, whose graphs must not be read.
// `error`: the exception that ends the program, or null. The functions that it has left count as
// running: its traceback keeps their locals only until then.
bool add_roots(Walk& walk, PyObject* error);

}  // namespace plimsoll::libtorch::holders
