// findings: verdict, evidence and next step, most severe first. Runs the rules of rules.h over the
// results of the other passes.
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::findings {

std::unique_ptr<analysis::Pass> make();

}  // namespace plimsoll::findings
