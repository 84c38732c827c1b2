#include "exporters/live_stacks.h"

#include <algorithm>

#include "model/live_set.h"

namespace plimsoll::exporters {
namespace {

LiveStacks stacks_at(const model::Trace& trace, const DevicePoint& point) {
  const model::DeviceTrace& device = *point.device;
  LiveStacks live{&device, point.name, {}, 0};
  std::vector<std::uint32_t> rows(trace.stacks.stack_count(), model::kNone);
  for (std::uint32_t lifetime :
       model::live_set(device, model::default_liveness(device), point.event)) {
    const model::StackId stack = trace.stack(device, lifetime);
    std::uint32_t& row = rows[stack.index()];
    if (row == model::kNone) {
      row = static_cast<std::uint32_t>(live.stacks.size());
      live.stacks.push_back(StackBytes{stack});
    }
    const std::uint64_t bytes = trace.lifetime_bytes(device, lifetime);
    live.stacks[row].bytes += bytes;
    live.stacks[row].count += 1;
    live.total_bytes += bytes;
  }
  std::ranges::sort(live.stacks, [](const StackBytes& a, const StackBytes& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.stack < b.stack;
  });
  return live;
}

}  // namespace

// Points are in the order of the devices, and some devices may have none. Ordinals alone do not
// distinguish cuda:0 from hip:0.
std::vector<DevicePoint> device_points(const ExportInput& input) {
  const auto& rows = input.report.tables.points;
  std::vector<DevicePoint> points;
  std::size_t next = 0;
  for (const model::DeviceTrace& device : input.trace.devices) {
    if (rows.empty()) {
      points.push_back({&device, "end", static_cast<std::int64_t>(device.events.size()) - 1});
      continue;
    }
    if (next == rows.size() || rows[next].device != device.device.ordinal) continue;
    const report::PointInTime& row = rows[next++];
    points.push_back({&device, row.name,
                      row.event ? static_cast<std::int64_t>(*row.event) : model::kBeforeFirst});
  }
  return points;
}

std::vector<LiveStacks> live_stacks(const ExportInput& input) {
  std::vector<LiveStacks> all;
  for (const DevicePoint& point : device_points(input)) {
    all.push_back(stacks_at(input.trace, point));
  }
  return all;
}

}  // namespace plimsoll::exporters
