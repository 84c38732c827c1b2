// The ranks of a run, one row each: how far a rank's peak in each step is from the median of all
// ranks in that step.
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

// Draws one row for each rank, in the given order; the row of a failed rank ends with a cross. If
// no rank has steps, the chart is a sentence.
Chart ranks(const std::vector<RankSteps>& ranks, const ChartOptions& options);

}  // namespace plimsoll::charts
