// The totals of each device and its timeline: the running sums of requested, active and reserved
// bytes after each event. The baseline is computed backwards from the final segments.
//
//   end      = totals of the final segments
//   baseline = end - sum of all changes; signed: below zero means that events and segments disagree
//   peak     = largest of the baseline and the sums after each event
//
// If a file has no segments, the timeline begins at zero or, if the file states earlier totals, at
// those. It ends at the sum of its events.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::timeline {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::timeline
