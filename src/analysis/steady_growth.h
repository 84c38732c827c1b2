// The bytes explained by a row of the growth table. The cause of an out-of-memory event and the
// finding about growth share this rule.
#pragma once

#include <algorithm>
#include <cstdint>

#include "report/tables.h"

namespace plimsoll::analysis {

inline std::uint64_t grown_bytes(const report::GrowthRow& row) {
  const bool counts = row.is_certain && !row.is_model_in_stages;
  return counts ? static_cast<std::uint64_t>(std::max<std::int64_t>(row.grown_bytes, 0)) : 0;
}

}  // namespace plimsoll::analysis
