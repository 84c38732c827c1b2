// Estimates what an optimizer's first step needs if a request in it fails: the state of the
// parameters that have none yet, and the tensors that Adam computes with.
#pragma once

#include "analysis/oom/need.h"

namespace plimsoll::analysis::oom {

// The need is unknown if the request is not an optimizer's, or if it is uncertain how many tensors
// the optimizer keeps for each parameter.
Need need_of_optimizer(const History& history, const Failure& failure, std::uint32_t step_begin);

}  // namespace plimsoll::analysis::oom
