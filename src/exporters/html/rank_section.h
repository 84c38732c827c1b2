// The sections of a page about several ranks.
#pragma once

#include <vector>

#include "comparison/ranks.h"
#include "exporters/html/markup.h"
#include "report/report.h"

namespace plimsoll::exporters::html {

// `first` is the report of the rank to read first.
void write_verdict_of_ranks(Markup& html, const comparison::RankComparison& comparison,
                            const report::Report& first);
// The heat map of ranks and steps, and a row for each rank. `comparison` is null for recordings
// that are not ranks of one run.
void write_ranks(Markup& html, const comparison::RankComparison* comparison,
                 const std::vector<report::Report>& reports);

}  // namespace plimsoll::exporters::html
