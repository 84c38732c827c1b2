// Runs passes in dependency order, times each, skips one with its reason when it cannot answer or
// when one that it depends on did not run, and stops between passes when the user interrupts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "analysis/pass.h"

namespace plimsoll::analysis {

Status run_passes(std::span<const std::unique_ptr<Pass>> passes, PassContext& context);

}  // namespace plimsoll::analysis
