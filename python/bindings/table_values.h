// The values of a table as Python's own objects: for those who have nothing that reads Arrow.
#pragma once

#include <nanobind/nanobind.h>

#include "plimsoll/table.h"

namespace plimsoll::python {

// By column, the value of each row: int, bool, str, a list of int, or None.
nanobind::dict values_of(const Table& table);

}  // namespace plimsoll::python
