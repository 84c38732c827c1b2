// findings: what to make of the figures. Verdict, evidence, next step, most severe first. Runs the
// rules of rules.h over what the other passes found.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::findings {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::findings
