// The four running totals of a device, and how one event changes them.
#pragma once

#include <array>
#include <cstdint>

#include "model/events.h"
#include "report/timeline.h"

namespace plimsoll::analysis::timeline {

using report::Series;
inline constexpr std::uint64_t kRounding = 512;  // the allocator's smallest unit

inline std::uint64_t rounded(std::uint64_t size_bytes) {
  return (size_bytes + (kRounding - 1)) & ~(kRounding - 1);
}

// Sums wrap instead of overflowing: a hostile file may name any size.
using Totals = std::array<std::uint64_t, report::kSeriesCount>;

inline std::uint64_t& of(Totals& totals, Series which) {
  return totals[static_cast<std::size_t>(which)];
}

// Calls change(series, delta) for each total that the event changes; `delta` is modulo 2^64.
template <typename Change>
inline void for_each_change(model::Action action, std::uint64_t size_bytes, Change&& change) {
  using model::Action;
  switch (action) {
    case Action::kAlloc:
      change(Series::kRequestedAllocated, size_bytes);
      change(Series::kRequestedActive, size_bytes);
      change(Series::kAllocatedRounded, rounded(size_bytes));
      break;
    case Action::kFreeRequested:
      change(Series::kRequestedAllocated, 0 - size_bytes);
      change(Series::kAllocatedRounded, 0 - rounded(size_bytes));
      break;
    case Action::kFreeCompleted:
      change(Series::kRequestedActive, 0 - size_bytes);
      break;
    case Action::kSegmentAlloc:
    case Action::kSegmentMap:
      change(Series::kReserved, size_bytes);
      break;
    case Action::kSegmentFree:
    case Action::kSegmentUnmap:
      change(Series::kReserved, 0 - size_bytes);
      break;
    case Action::kSnapshot:
    case Action::kOom:
    case Action::kAnnotate:
    case Action::kUnknown:
      break;
  }
}

}  // namespace plimsoll::analysis::timeline
