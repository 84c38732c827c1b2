// Compares the ranks of a distributed run: the peak of each, which one differs from the others, and
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
  // The device with the highest peak, the CPU only as a last resort; null: nothing was recorded.
  const report::DeviceReport* device = nullptr;
  const report::PointInTime* peak = nullptr;  // of that device; null: the tables describe a
                                              // different point in time
  const report::Oom* first_oom = nullptr;
  std::int64_t peak_bytes = 0;
  std::int64_t difference_bytes = 0;  // of its peak, from the reference
  bool differs = false;               // by enough to be reported
};

struct RankComparison {
  std::vector<report::Finding> findings;  // most severe first
  std::vector<RankRow> ranks;             // in ascending order
  std::string reference;          // what peaks are compared with: "the median of 4 ranks", "rank 0"
  std::size_t first_to_read = 0;  // index of the report to read first
};

// nullopt unless there are at least two reports, each from a different rank. The result refers to
// `reports`.
std::optional<RankComparison> compare_ranks(const std::vector<report::Report>& reports);
std::optional<RankComparison> compare_ranks(std::vector<report::Report>&& reports) = delete;

}  // namespace plimsoll::comparison
