// Redacts a loaded recording of any format: replaces the names in its tables by pseudonyms
// (pseudonyms.h), and omits source lines. Sizes, times and addresses are kept, so its reports have
// the same findings and bytes.
#pragma once

#include "base/diagnostics.h"
#include "model/trace.h"
#include "plimsoll/session.h"

namespace plimsoll::redaction {

// Diagnostics lose their examples, which may quote the file. Returns the replaced texts.
NameMap redact(model::Trace& trace, base::Diagnostics& diagnostics);

}  // namespace plimsoll::redaction
