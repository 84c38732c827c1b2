#include "analysis/composition/live_allocations.h"

#include <algorithm>
#include <string_view>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::composition {
namespace {

using model::kNone;

class Gather {
 public:
  Gather(const model::Trace& trace, const model::DeviceTrace& device, const model::UserLines& lines)
      : trace_(trace), device_(device), lines_(lines) {}

  LiveAllocation at(std::uint32_t lifetime) const {
    const std::uint32_t block = device_.lifetimes.block[lifetime];
    const std::uint32_t alloc = device_.lifetimes.alloc[lifetime];
    LiveAllocation live = alloc == kNone ? born_before(lifetime) : born_at(lifetime);
    live.lifetime = lifetime;
    live.size_bytes = trace_.lifetime_bytes(device_, lifetime);
    live.born = alloc;
    live.category = trace_.category(device_, lifetime);
    if (live.pool == model::PoolId{} && block != kNone) live.pool = segment_of(block).pool;
    return live;
  }

 private:
  LiveAllocation born_at(std::uint32_t lifetime) const {
    const model::Site& site = trace_.birth(device_, lifetime);
    LiveAllocation live;
    live.stack = site.stack;
    const bool is_adopted = has(device_.lifetimes.flags[lifetime], model::LifetimeFlags::kAdopted);
    const bool is_nameless = is_adopted && trace_.stacks.frames(live.stack).empty();
    live.line = is_nameless ? before_recording(lines_) : lines_.line(live.stack);
    live.stream = site.stream;
    live.pool = site.pool;
    return live;
  }

  // Known from its final block, which has its allocation site, or from its free, which does not.
  LiveAllocation born_before(std::uint32_t lifetime) const {
    LiveAllocation live;
    live.stream = trace_.stream(device_, lifetime);
    const std::size_t event = trace_.attributed_event(device_, lifetime);
    if (event != kNone) {
      live.pool = trace_.site(device_, event).pool;
    } else {
      live.stack = trace_.stack(device_, lifetime);
    }
    const bool is_nameless = trace_.stacks.frames(live.stack).empty() && device_.events.size() > 0;
    live.line = is_nameless ? before_recording(lines_) : lines_.line(live.stack);
    return live;
  }

  const model::Segment& segment_of(std::uint32_t block) const {
    const model::Segment* const first = trace_.segments.begin() + device_.first_segment;
    const model::Segment* const next = std::upper_bound(
        first, first + device_.segment_count, block,
        [](std::uint32_t b, const model::Segment& segment) { return b < segment.first_block; });
    return *(next - 1);
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const model::UserLines& lines_;
};

}  // namespace

bool has_category(const model::Trace& trace, const LiveAllocation& live) {
  const std::string_view category = trace.strings[live.category];
  return !category.empty() && category != model::kUnknownCategory;
}

bool has_categories(const model::Trace& trace, std::span<const LiveAllocation> live) {
  return std::ranges::any_of(live, [&](const auto& each) { return has_category(trace, each); });
}

std::vector<LiveAllocation> live_allocations(const model::Trace& trace,
                                             const model::DeviceTrace& device,
                                             const model::UserLines& lines, std::int64_t event) {
  const auto rows = model::live_set(device, model::held(device), event);
  const Gather gather(trace, device, lines);
  std::vector<LiveAllocation> live;
  live.reserve(rows.size());
  for (const std::uint32_t row : rows) live.push_back(gather.at(row));
  return live;
}

}  // namespace plimsoll::analysis::composition
