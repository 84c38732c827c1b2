// Redacts a loaded recording of any format: replaces the names in its tables by pseudonyms
// (pseudonyms.h), and omits source lines. Sizes, times and addresses are kept, so its reports have
// the same findings and bytes.
#pragma once

#include "engine/load.h"
#include "plimsoll/session.h"

namespace plimsoll::engine {

// Diagnostics lose their examples, which may quote the file. Returns the replaced texts.
NameMap redact(Loaded& loaded);

}  // namespace plimsoll::engine
