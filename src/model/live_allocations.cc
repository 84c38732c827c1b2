#include "model/live_allocations.h"

#include <algorithm>
#include <string_view>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::model {
namespace {

PoolId pool_of_block(const Trace& trace, const DeviceTrace& device, std::uint32_t block) {
  const Segment* const first = trace.segments.begin() + device.first_segment;
  const Segment* const next = std::upper_bound(
      first, first + device.segment_count, block,
      [](std::uint32_t b, const Segment& segment) { return b < segment.first_block; });
  return (next - 1)->pool;
}

}  // namespace

StackId AllocationKeys::stack(std::size_t lifetime) const {
  if (device_.lifetimes.alloc[lifetime] != kNone) return trace_.birth(device_, lifetime).stack;
  return trace_.attributed_event(device_, lifetime) != kNone ? kNoStack
                                                             : trace_.stack(device_, lifetime);
}

LineId AllocationKeys::line(std::size_t lifetime) const {
  const StackId where = stack(lifetime);
  // Allocated before the recording: the allocation was not recorded, or only reported as live when
  // the recording began.
  const bool is_older = device_.lifetimes.alloc[lifetime] == kNone
                            ? device_.events.size() > 0
                            : has(device_.lifetimes.flags[lifetime], LifetimeFlags::kAdopted);
  const bool is_nameless = is_older && trace_.stacks.frames(where).empty();
  return is_nameless ? before_recording(lines_) : lines_.line(where);
}

PoolId AllocationKeys::pool(std::size_t lifetime) const {
  const std::size_t event = trace_.attributed_event(device_, lifetime);
  const PoolId stated = event == kNone ? PoolId{} : trace_.site(device_, event).pool;
  if (stated != PoolId{}) return stated;
  const std::uint32_t block = device_.lifetimes.block[lifetime];
  if (block != kNone) return pool_of_block(trace_, device_, block);
  if (event == kNone || device_.segment_count == 0) return {};
  if (!final_pools_) final_pools_.emplace(trace_, device_);
  return final_pools_->pool(device_.events.address[event], event);
}

LiveAllocation AllocationKeys::all(std::uint32_t lifetime) const {
  return {.size_bytes = trace_.lifetime_bytes(device_, lifetime),
          .lifetime = lifetime,
          .born = device_.lifetimes.alloc[lifetime],
          .line = line(lifetime),
          .stack = stack(lifetime),
          .stream = stream(lifetime),
          .pool = pool(lifetime),
          .category = trace_.category(device_, lifetime)};
}

bool is_known_category(const Trace& trace, StringId category) {
  const std::string_view name = trace.strings[category];
  return !name.empty() && name != kUnknownCategory;
}

bool has_categories(const Trace& trace, std::span<const LiveAllocation> live) {
  return std::ranges::any_of(
      live, [&](const LiveAllocation& each) { return is_known_category(trace, each.category); });
}

std::vector<LiveAllocation> live_allocations(const Trace& trace, const DeviceTrace& device,
                                             const UserLines& lines, std::int64_t event) {
  const auto rows = live_set(device, default_liveness(device), event);
  const AllocationKeys keys(trace, device, lines);
  std::vector<LiveAllocation> live;
  live.reserve(rows.size());
  for (const std::uint32_t row : rows) live.push_back(keys.all(row));
  return live;
}

}  // namespace plimsoll::model
