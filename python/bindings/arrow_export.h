// Exports a Table through the Arrow C interfaces without copying. Every exported struct shares
// ownership of the table, and thus of the recording, until its release callback is called.
#pragma once

#include <memory>

#include "arrow_abi.h"
#include "plimsoll/table.h"

namespace plimsoll::python {

using TablePtr = std::shared_ptr<const Table>;

// A struct with the table's columns as children.
void export_schema(const Table& table, ArrowSchema* out);
// The table's batches, one after the other.
void export_stream(TablePtr table, ArrowArrayStream* out);

}  // namespace plimsoll::python
