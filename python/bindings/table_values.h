// The values of a table as Python objects, for users without a library that reads Arrow.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "plimsoll/table.h"

namespace plimsoll::python {

// By column, the values of the rows from `begin` to before `end`: int, bool, str, a list of int, or
// None.
nanobind::dict values_of(const Table& table, std::size_t begin, std::size_t end);

}  // namespace plimsoll::python
