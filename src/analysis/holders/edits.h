// The edit to a program that ends what a holder holds.
#pragma once

#include <string>
#include <string_view>

#include "analysis/holders/holders.h"

namespace plimsoll::analysis::holders {

// An imperative: "Append loss.detach() …". Empty if the holder is native code, a model or
// optimizer, which needs what it holds, or if operators use most of it again. `instead`: what to
// store, as the end of an edit that removes entries of a container; other edits end the cause
// itself.
std::string edit_text(const model::Trace& trace, const Holder& holder,
                      std::string_view instead = {});

}  // namespace plimsoll::analysis::holders
