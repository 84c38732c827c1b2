// Memory that never comes back: source lines whose live bytes go up from step to step.
//
// For each line, the bytes of its allocations that are alive at each step boundary (allocated in
// the recording, not yet freed) make a series; boundaries.h says what the steps are. A line grows
// if the last value is above the first, the Theil-Sen slope is above zero and Kendall's tau is at
// least 0.8. With few steps sizes that vary from batch to batch can rise by chance, so there the
// number of live allocations must rise too.
//
// Layers and categories, where the file tells them, are judged by the same rule.
//
//   kept each step      1 2 3 4 5 6      tau 1      grows
//   appears once        0 3 3 3 3 3      tau 0.33   does not
//   differs each step   2 5 1 4 2 3      tau 0.07   does not
#pragma once

#include <memory>

#include "analysis/pass.h"

namespace plimsoll::analysis::growth {

std::unique_ptr<Pass> make();

}  // namespace plimsoll::analysis::growth
