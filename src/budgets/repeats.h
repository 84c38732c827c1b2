// One digest of several recordings of the same program.
#pragma once

#include <cstdint>
#include <vector>

#include "report/digest.h"

namespace plimsoll::budgets {

// With a spread, a growth counts only if it was measured this many times.
inline constexpr std::uint64_t kLeastRepeats = 5;

// The digest with the median peak, with the minimum and maximum over all for each point and key
// that varies. At least one digest; a single one is returned unchanged.
report::Digest fold(const std::vector<report::Digest>& digests);

// The bytes of a point, as minimum and maximum; equal if nothing varies.
struct PointRange {
  std::int64_t least_bytes = 0;
  std::int64_t most_bytes = 0;
  std::uint64_t recordings = 1;

  std::int64_t spread() const { return most_bytes - least_bytes; }
};
PointRange range_of(const report::Digest& digest, std::uint64_t point);

}  // namespace plimsoll::budgets
