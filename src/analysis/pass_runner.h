// Runs passes in dependency order and times each. A pass is skipped, with its reason, if it cannot
// run or a pass that it depends on did not run. The run stops between passes when the user
// interrupts it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/pass.h"

namespace plimsoll::analysis {

using Passes = std::span<const std::unique_ptr<Pass>>;

// Runs every pass except those that run only on request, into an empty report.
Status run_passes(Passes passes, PassContext& context);

// Runs the passes in `wanted` and those they build on; as above if `wanted` is empty.
// `context.report` has results for other options, which differ in `changed`. Results that depend on
// these options are emptied and, if wanted, computed again. The rest is kept.
Status run_passes(Passes passes, std::span<const std::string> wanted, OptionSet changed,
                  PassContext& context);

// The options that differ.
OptionSet difference(const Options& a, const Options& b);

}  // namespace plimsoll::analysis
