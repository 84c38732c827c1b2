// The ranks of a run, one row each: how far a rank's peak in each step is from the median of the
// comparable ranks in that step.
#pragma once

#include <cstdint>
#include <vector>

#include "charts/chart.h"
#include "report/report.h"

namespace plimsoll::charts {

struct StepPeak {
  std::uint64_t step = 0;
  std::uint64_t peak_bytes = 0;
};

struct RankSteps {
  std::int64_t rank = 0;
  std::uint64_t group = 0;           // ranks of the same group are compared
  std::vector<StepPeak> steps = {};  // by step
  bool has_rest = false;             // the last step has not ended
  bool has_failed = false;           // memory ran out
};

// The steps of one device of a rank.
RankSteps steps_of(const report::Report& report, std::int32_t device, std::int64_t rank);

// Draws one row for each rank, in the given order; the row of a failed rank ends with a cross. If
// there are too many, a row stands for several neighbors, and has the cells of the one that is
// farthest from its median. If no rank has steps, the chart is a sentence.
Chart ranks(const std::vector<RankSteps>& ranks, const ChartOptions& options);

}  // namespace plimsoll::charts
