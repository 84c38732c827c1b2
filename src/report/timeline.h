// Timeline: the running totals of a device, as a pyramid of buckets. Level 0 is the finest level
// kept; each further level merges `kFanOut` buckets into one. A bucket has the minimum, maximum and
// last value of each series, so that a drawing of any width shows every peak.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::report {

enum class Series : std::uint8_t {
  kRequestedAllocated,  // requested bytes, alloc to free_requested
  kRequestedActive,     // requested bytes, alloc to free_completed
  kAllocatedRounded,    // allocated bytes, if a recording has blocks; else requested rounded up
                        // to 512 bytes, alloc to free_requested, which lacks unsplit tails
  kReserved,
};
inline constexpr std::size_t kSeriesCount = 4;
const char* to_string(Series series);

struct SeriesBucket {
  std::int64_t min_bytes = 0;
  std::int64_t max_bytes = 0;
  std::int64_t last_bytes = 0;
};

struct TimelineBucket {
  std::uint64_t first_event = 0;
  std::uint64_t event_count = 0;
  std::int64_t first_time_ns = 0;  // the model's "no time" if unknown
  std::int64_t last_time_ns = 0;
  std::array<SeriesBucket, kSeriesCount> series;

  const SeriesBucket& of(Series which) const { return series[static_cast<std::size_t>(which)]; }
};

struct Timeline {
  static constexpr std::size_t kFanOut = 4;
  static constexpr std::size_t kFinestBuckets = 1 << 16;  // at most this many on level 0

  std::array<std::int64_t, kSeriesCount> baseline_bytes{};
  std::vector<std::vector<TimelineBucket>> levels;

  // The finest level with at most `points` buckets; the coarsest if none is that coarse. Null if
  // there are no events.
  const std::vector<TimelineBucket>* at_most(std::size_t points) const;
};

}  // namespace plimsoll::report
