// Merges the digests of several recordings of one program.
#pragma once

#include <cstdint>
#include <vector>

#include "report/digest.h"

namespace plimsoll::budgets {

// The fewest recordings for a verdict on a point whose bytes differ between recordings.
inline constexpr std::uint64_t kLeastRepeats = 5;

// Returns the digest with the median peak, plus the minimum and maximum of each point and key that
// differs between the digests. `digests` must not be empty; a single digest is returned unchanged.
report::Digest fold(const std::vector<report::Digest>& digests);

// The minimum and maximum bytes of a point; equal if all recordings agree.
struct PointRange {
  std::int64_t least_bytes = 0;
  std::int64_t most_bytes = 0;
  std::uint64_t recordings = 1;

  std::int64_t spread() const { return most_bytes - least_bytes; }
};
PointRange range_of(const report::Digest& digest, std::uint64_t point);

}  // namespace plimsoll::budgets
