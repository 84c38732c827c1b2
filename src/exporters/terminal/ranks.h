// The table of a run's ranks, one row per rank.
#pragma once

#include <string>
#include <vector>

#include "comparison/ranks.h"
#include "exporters/terminal/report.h"
#include "report/report.h"

namespace plimsoll::exporters::terminal {

std::string ranks_table(const comparison::RankComparison& comparison,
                        const std::vector<report::Report>& reports, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
