// The ranks of a distributed run side by side: the peak of each, which one differs from the others,
// which one ran out of memory first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"

namespace plimsoll::comparison {

struct RankRow {
  std::int64_t number = 0;
  std::size_t report = 0;  // index into the compared reports
  // The device with the highest peak, any other before the CPU; null: nothing was recorded.
  const report::DeviceReport* device = nullptr;
  const report::MomentRow* peak = nullptr;  // of that device; null: the tables show another time
  const report::Oom* first_oom = nullptr;
  std::int64_t peak_bytes = 0;
  std::int64_t difference_bytes = 0;  // of its peak from the reference
  bool differs = false;               // by enough to report it
};

struct RankComparison {
  std::vector<report::Finding> findings;  // most severe first
  std::vector<RankRow> ranks;             // in ascending order
  std::string reference;          // that peaks are compared with: "the median of 4 ranks", "rank 0"
  std::size_t first_to_read = 0;  // index of the report to begin with
};

// nullopt unless there are at least two reports, each of another rank. The result points into
// `reports`.
std::optional<RankComparison> compare_ranks(const std::vector<report::Report>& reports);
std::optional<RankComparison> compare_ranks(std::vector<report::Report>&& reports) = delete;

}  // namespace plimsoll::comparison
