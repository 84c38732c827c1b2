// The summary of a log in the form of other tensor profilers, in MB of 1024 x 1024 bytes and five
// categories: how memory changed from start to end, and what filled it at the end.
#pragma once

#include <string>

#include "logs/summary.h"

namespace plimsoll::cli {

// One block for each accelerator, or for the CPU if there is none. Empty for logs without tensors.
// Figures that are missing from the log are omitted.
std::string profile_summary_text(const logs::LogSummary& summary);

}  // namespace plimsoll::cli
