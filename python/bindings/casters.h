// nanobind's casters for types of the standard library, compiled without noexcept. They allocate,
// so with noexcept a long name would end the program when memory runs out; without it, the caller
// gets a MemoryError.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#define noexcept
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#undef noexcept

namespace plimsoll::python {

// Raises MemoryError when nanobind cannot convert one of our values and Python has no error of its
// own, which happens only if there is no memory. Otherwise the program would get a RuntimeError.
inline void raise_memory_error_for_failed_casts() {
  nanobind::register_exception_translator([](const std::exception_ptr& error, void* /*payload*/) {
    try {
      std::rethrow_exception(error);
    } catch (const nanobind::cast_error&) {
      PyErr_NoMemory();
    }
  });
}

}  // namespace plimsoll::python
