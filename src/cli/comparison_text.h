// A comparison of runs or ranks as a person reads it: what differs, then one table.
#pragma once

#include <string>

#include "cli/log_text.h"
#include "monitor/log_comparison.h"

namespace plimsoll::cli {

std::string to_text(const monitor::LogComparison& comparison, const LogTextOptions& options);

}  // namespace plimsoll::cli
