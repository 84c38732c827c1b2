// The edit to a program that ends what a holder holds.
#pragma once

#include <string>

#include "analysis/holders/holders.h"

namespace plimsoll::analysis::holders {

// An imperative: "Append loss.detach() …". Empty if the holder is native code, or a
// model or optimizer, which needs what it holds.
std::string edit_text(const model::Trace& trace, const Holder& holder);

}  // namespace plimsoll::analysis::holders
