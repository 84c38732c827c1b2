// The totals of each device and its timeline: the running sums of requested, active and reserved
// bytes after each event, with the baseline rolled back from the final segments.
//
//   end      = what the final segments hold
//   baseline = end - sum of all changes; signed: below zero means that events and segments disagree
//   peak     = largest of the baseline and the sums after each event
//
// A file without segments, or one that says what was live before, begins at that, or at zero, and
// ends where its events lead.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::timeline {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::timeline
