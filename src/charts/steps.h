// The floor and the peak of each step: a floor that rises from step to step is a leak.
#pragma once

#include <cstdint>

#include "charts/chart.h"
#include "report/report.h"

namespace plimsoll::charts {

// Shows the steps of a device in the report. If there are too many for the width, adjacent steps
// share a bar with their highest peak and highest floor. A sentence if no steps are marked.
Chart steps(const report::Report& report, std::int32_t device, const ChartOptions& options);

}  // namespace plimsoll::charts
