#include "model/live_set.h"

#include "base/check.h"

namespace plimsoll::model {

std::int64_t start_of_recording(const DeviceTrace& device) {
  std::int64_t start = kBeforeFirst;
  std::size_t lifetime = device.lifetimes.baseline_count;
  for (std::size_t event = 0; event < device.events.size(); ++event) {
    const Action action = device.events.action[event];
    if (action == Action::kAlloc) {
      if (!has(device.lifetimes.flags[lifetime++], LifetimeFlags::kAdopted)) break;
      start = static_cast<std::int64_t>(event);
    } else if (action != Action::kSegmentAlloc && action != Action::kSegmentMap) {
      break;
    }
  }
  return start;
}

std::vector<std::uint32_t> live_set(const DeviceTrace& device, Liveness liveness,
                                    std::int64_t event) {
  const LiveIndex& index = device.live_index[static_cast<std::size_t>(liveness)];
  PLIMSOLL_CHECK(index.row_count() == device.lifetimes.size());
  std::vector<std::uint32_t> rows;
  index.append_live(device.lifetimes, event, rows);
  return rows;
}

}  // namespace plimsoll::model
