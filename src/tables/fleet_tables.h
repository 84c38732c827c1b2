// The tables of src/fleet/partial.h, built from a report with all analyses and the digest.
#pragma once

#include <vector>

#include "plimsoll/table.h"
#include "report/report.h"
#include "tables/tables.h"

namespace plimsoll::tables {

// ranks, steps, peaks, sites, findings.
std::vector<Table> fleet_tables(const TracePtr& recording, const report::Report& report);

}  // namespace plimsoll::tables
