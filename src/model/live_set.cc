#include "model/live_set.h"

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
  std::vector<std::uint32_t> live;
  const Lifetimes& lifetimes = device.lifetimes;
  for (std::size_t row = 0; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    if (born != kNone && std::int64_t{born} > event) break;  // rows are in order of birth
    if (is_live(lifetimes, row, liveness, event)) live.push_back(static_cast<std::uint32_t>(row));
  }
  return live;
}

}  // namespace plimsoll::model
