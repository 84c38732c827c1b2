// The tables of src/fleet/partial.h, built from a report with all analyses and the digest.
#pragma once

#include <vector>

#include "engine/tables.h"
#include "plimsoll/table.h"
#include "report/report.h"

namespace plimsoll::engine {

// ranks, steps, peaks, sites, findings.
std::vector<Table> fleet_tables(const StatePtr& state, const report::Report& report);

}  // namespace plimsoll::engine
