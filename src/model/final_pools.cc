#include "model/final_pools.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::model {

FinalPools::FinalPools(const Trace& trace, const DeviceTrace& device)
    : trace_(trace), device_(device) {
  const Events& events = device.events;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const Action action = events.action[row];
    if (action != Action::kSegmentFree && action != Action::kSegmentUnmap) continue;
    const std::uint64_t begin = events.address[row];
    const std::uint64_t size = std::min(events.size_bytes[row], UINT64_MAX - begin);
    if (size > 0) add_ended(begin, begin + size, row);
  }
}

// Takes the place of earlier events in the range.
void FinalPools::add_ended(std::uint64_t begin, std::uint64_t end, std::size_t event) {
  const auto split = [&](std::uint64_t address) {
    const auto after = ended_.upper_bound(address);
    if (after == ended_.begin()) return;
    auto& [first, range] = *std::prev(after);
    if (first == address || range.end_address <= address) return;
    const Ended rest = range;
    range.end_address = address;
    ended_.emplace(address, rest);
  };
  split(begin);
  split(end);
  ended_.erase(ended_.lower_bound(begin), ended_.lower_bound(end));
  ended_.emplace(begin, Ended{.end_address = end, .event = event});
}

PoolId FinalPools::pool(std::uint64_t address, std::size_t event) const {
  const auto after = ended_.upper_bound(address);
  if (after != ended_.begin()) {
    const Ended& ended = std::prev(after)->second;
    if (address < ended.end_address && event < ended.event) return {};
  }
  const auto segments = trace_.segments.span(device_.first_segment, device_.segment_count);
  const auto next = std::ranges::upper_bound(segments, address, {}, &Segment::address);
  if (next == segments.begin()) return {};
  const Segment& segment = *std::prev(next);
  return address - segment.address < segment.total_size ? segment.pool : PoolId{};
}

}  // namespace plimsoll::model
