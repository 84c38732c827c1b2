// The comparison of runs or ranks as text: the differences, then one table.
#pragma once

#include <string>

#include "cli/log_text.h"
#include "logs/comparison.h"

namespace plimsoll::cli {

std::string to_text(const logs::LogComparison& comparison, const LogTextOptions& options);

}  // namespace plimsoll::cli
