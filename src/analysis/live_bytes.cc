#include "analysis/live_bytes.h"

#include "analysis/running_totals.h"
#include "model/live_set.h"

namespace plimsoll::analysis {

std::int64_t live_bytes_at(const model::DeviceTrace& device, const report::DeviceReport& totals,
                           std::int64_t event) {
  if (event == model::kBeforeFirst) return totals.live_totals().baseline_bytes;
  // The timeline has the total before the event's bucket; the rest is summed.
  const Series series =
      device.has_block_sizes ? Series::kAllocatedRounded : Series::kRequestedActive;
  const auto& level = totals.timeline.levels.front();
  const auto wanted = static_cast<std::uint64_t>(event);
  const std::uint64_t bucket = wanted / level.front().event_count;
  const std::int64_t before =
      bucket == 0 ? totals.live_totals().baseline_bytes : level[bucket - 1].of(series).last_bytes;
  Totals now{};
  of(now, series) = static_cast<std::uint64_t>(before);
  const EventView events = view_of(device);
  for (std::uint64_t row = level[bucket].first_event; row <= wanted; ++row) {
    events.apply_to(now, row);
  }
  return static_cast<std::int64_t>(of(now, series));
}

}  // namespace plimsoll::analysis
