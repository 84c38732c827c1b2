// When a row of the growth table is growth to speak of, and how many bytes it explains. One rule,
// for the cause of an out-of-memory and for the finding about growth.
#pragma once

#include <cstdint>

#include "report/tables.h"

namespace plimsoll::analysis {

// Five values rise by chance alone once in 120; four already once in 24.
inline constexpr std::uint64_t kFewestGrowingSteps = 5;
// Kendall's tau 0.8 of five steps allows one pair of ten to fall.
inline constexpr double kSteadyConfidence = 0.8;

inline bool is_steady_growth(const report::GrowthRow& row) {
  return row.steps >= kFewestGrowingSteps && row.confidence >= kSteadyConfidence &&
         row.bytes_per_step > 0 && row.last_bytes > row.first_bytes;
}

// What was added between the first and the last step compared.
inline std::uint64_t grown_bytes(const report::GrowthRow& row) {
  if (row.last_bytes <= row.first_bytes) return 0;
  return static_cast<std::uint64_t>(row.last_bytes) - static_cast<std::uint64_t>(row.first_bytes);
}

}  // namespace plimsoll::analysis
