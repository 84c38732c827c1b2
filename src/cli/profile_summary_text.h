// The summary that users of tensor profilers know, in MB of 1024 x 1024 bytes and by five
// categories: how memory went from the start to the end, and what held it at the end.
#pragma once

#include <string>

#include "logs/summary.h"

namespace plimsoll::cli {

// One block for each accelerator, or for the CPU where there is none. Empty for logs without
// tensors. A figure that the log does not have has no line.
std::string profile_summary_text(const logs::LogSummary& summary);

}  // namespace plimsoll::cli
