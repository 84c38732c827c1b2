// Holders as reports state them.
#pragma once

#include "analysis/holders/holders.h"
#include "plimsoll/finding.h"

namespace plimsoll::analysis::holders {

FindingHolder as_reported(const model::Trace& trace, const Holder& holder);

}  // namespace plimsoll::analysis::holders
