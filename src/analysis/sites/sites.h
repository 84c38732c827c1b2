// What each source line allocated over the whole recording: how much, how often, how long it lived,
// how much of it was freed at once (churn) and how much never. Only allocations made in the
// recording count. Kept are the lines with most bytes, those with most bytes never freed, and those
// with most temporary allocations.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::sites {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::sites
