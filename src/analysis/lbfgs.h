// Recognizes allocations of torch.optim.LBFGS, whose history is a list of vectors of all
// parameters.
#pragma once

#include <algorithm>

#include "base/path_text.h"
#include "model/trace.h"

namespace plimsoll::analysis {

inline bool is_of_lbfgs(const model::Trace& trace, model::StackId stack) {
  return std::ranges::any_of(trace.stacks.frames(stack), [&](model::FrameId id) {
    return base::ends_with_path(trace.strings[trace.stacks.frame(id).file], "torch/optim/lbfgs.py");
  });
}

}  // namespace plimsoll::analysis
