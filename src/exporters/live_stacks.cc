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

// Moments stand in the order of the devices, and some devices may have none. Ordinals alone do not
// tell cuda:0 from hip:0.
class Moments {
 public:
  explicit Moments(const report::Report& report) : rows_(report.tables.moments) {}

  std::optional<Moment> next_for(const model::DeviceTrace& device) {
    if (rows_.empty()) return Moment{"end", static_cast<std::int64_t>(device.event_count) - 1};
    if (next_ == rows_.size() || rows_[next_].device != device.device.ordinal) return std::nullopt;
    const report::MomentRow& row = rows_[next_++];
    return Moment{row.name,
                  row.event ? static_cast<std::int64_t>(*row.event) : model::kBeforeFirst};
  }

 private:
  const std::vector<report::MomentRow>& rows_;
  std::size_t next_ = 0;
};

LiveStacks stacks_at(const model::Trace& trace, const model::DeviceTrace& device,
                     const Moment& moment) {
  LiveStacks live{&device, moment.name, {}, 0};
  std::vector<std::uint32_t> rows(trace.stacks.stack_count(), model::kNone);
  for (std::uint32_t lifetime : model::live_set(device, model::Liveness::kActive, moment.event)) {
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
  Moments moments(input.report);
  for (const model::DeviceTrace& device : input.trace.devices) {
    const std::optional<Moment> moment = moments.next_for(device);
    if (moment) all.push_back(stacks_at(input.trace, device, *moment));
  }
  return all;
}

}  // namespace plimsoll::exporters
