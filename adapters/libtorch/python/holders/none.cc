// In place of the walk, where it does not compile or fails its test: it reads classes of torch and
// of Python that other versions may have changed.
#include "python/holders/find.h"

namespace plimsoll::libtorch::holders {

PyObject* find_holders(PyObject* /*self*/, PyObject* /*args*/) { Py_RETURN_FALSE; }
PyObject* holders_as_python(PyObject* /*self*/, PyObject* /*args*/) { Py_RETURN_NONE; }
void find_wanted_holders() noexcept {}
void begin_growth() noexcept {}

}  // namespace plimsoll::libtorch::holders
