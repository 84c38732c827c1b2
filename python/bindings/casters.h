// nanobind's casters of the standard library's types. They are noexcept and allocate: a long name
// would end the program where there is no memory. Without the word, the caller gets a MemoryError.
#pragma once

#include <nanobind/nanobind.h>

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
