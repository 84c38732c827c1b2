// The ranks of a run side by side: how far each rank's peak in each step is from the median of that
// step.
#pragma once

#include <cstdint>
#include <vector>

#include "charts/chart.h"
#include "report/report.h"

namespace plimsoll::charts {

struct RankSteps {
  std::int64_t rank = 0;
  const report::Report* report = nullptr;
  std::int32_t device = 0;  // whose steps are shown
};

// One row for each rank, in this order; a failed rank ends with a cross. A sentence if no rank has
// steps.
Chart ranks(const std::vector<RankSteps>& ranks, const ChartOptions& options);

}  // namespace plimsoll::charts
