#include "exporters/live_stacks.h"

#include <algorithm>
#include <optional>

#include "model/live_set.h"

namespace plimsoll::exporters {
namespace {

struct Moment {
  std::string name;
  std::int64_t event = model::kBeforeFirst;
};

std::optional<Moment> moment_of(const report::Report& report, const model::DeviceTrace& device) {
  const auto& moments = report.tables.moments;
  if (moments.empty()) return Moment{"end", static_cast<std::int64_t>(device.event_count) - 1};
  const auto row = std::ranges::find(moments, device.device.ordinal, &report::MomentRow::device);
  if (row == moments.end()) return std::nullopt;
  return Moment{row->name, row->event ? static_cast<std::int64_t>(*row->event)
                                      : model::kBeforeFirst};
}

LiveStacks stacks_at(const model::Trace& trace, const model::DeviceTrace& device,
                     const Moment& moment) {
  LiveStacks live{&device, moment.name, {}, 0};
  std::vector<std::uint32_t> rows(trace.stacks.stack_count(), model::kNone);
  for (std::uint32_t lifetime :
       model::live_set(device, model::Liveness::kActive, moment.event)) {
    const model::StackId stack = trace.stack(device, lifetime);
    std::uint32_t& row = rows[stack.index()];
    if (row == model::kNone) {
      row = static_cast<std::uint32_t>(live.stacks.size());
      live.stacks.push_back(StackBytes{stack});
    }
    const std::uint64_t bytes = trace.size_bytes(device, lifetime);
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

std::vector<LiveStacks> live_stacks(const ExportInput& input) {
  std::vector<LiveStacks> all;
  for (const model::DeviceTrace& device : input.trace.devices) {
    const std::optional<Moment> moment = moment_of(input.report, device);
    if (moment) all.push_back(stacks_at(input.trace, device, *moment));
  }
  return all;
}

}  // namespace plimsoll::exporters
