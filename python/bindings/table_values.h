// Converts the values of a table to Python objects, for users without a library that reads Arrow.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "plimsoll/table.h"

namespace plimsoll::python {

// Returns one list per column, with the values of the rows from `begin` to before `end`: int, bool,
// str, a list of int, or None.
nanobind::dict values_of(const Table& table, std::size_t begin, std::size_t end);

}  // namespace plimsoll::python
