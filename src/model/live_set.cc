#include "model/live_set.h"

namespace plimsoll::model {

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
